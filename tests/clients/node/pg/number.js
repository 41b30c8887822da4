// node-postgres on a server with the layout `js`: bigint as Number, and what is too large is refused.
import pg from "pg";

pg.types.setTypeParser(pg.types.builtins.INT8, (text) => {
    const number = Number(text);
    if (!Number.isSafeInteger(number)) throw new RangeError(`${text} is too large for a number`);
    return number;
});

const pool = new pg.Pool();
const inserted = await pool.query("INSERT INTO customer (name) VALUES ($1), ($2) RETURNING id", ["Ada", "Grace"]);
const [ada, grace] = inserted.rows.map((customer) => customer.id);
const refused = await pool.query("SELECT 9007199254740993::bigint").catch((error) => error.message);
console.log(JSON.stringify({ customers: [ada, grace], refused }));
await pool.end();
