// node-postgres with bigint as BigInt: what the recipe's tables give then, and how it goes into JSON.
import pg from "pg";

pg.types.setTypeParser(pg.types.builtins.INT8, BigInt);
pg.types.setTypeParser(1016, (text) => pg.types.arrayParser.create(text, BigInt).parse()); // bigint[]

const textForBigInt = (key, value) => (typeof value === "bigint" ? value.toString() : value);

const pool = new pg.Pool();
const inserted = await pool.query("INSERT INTO customer (name) VALUES ($1), ($2) RETURNING id", ["Ada", "Grace"]);
const [ada, grace] = inserted.rows.map((customer) => customer.id);
const found = await pool.query("SELECT name FROM customer WHERE id = $1", [ada]);
const array = await pool.query("SELECT snowflake_next_array(3) AS ids");
const counted = await pool.query("SELECT count(*) FROM customer");

let refusal;
try {
    JSON.stringify(ada);
} catch (error) {
    refusal = error.message;
}
console.log(
    JSON.stringify(
        {
            customers: [ada, grace],
            increasing: ada < grace,
            found: found.rows.map((customer) => customer.name),
            types: [ada, ...array.rows[0].ids, counted.rows[0].count].map((value) => typeof value),
            refusal,
        },
        textForBigInt,
    ),
);
await pool.end();
