// node-postgres: a migration, keys read back, many rows in one statement. Prints what it was given as JSON.
import pg from "pg";

const pool = new pg.Pool(); // PGHOST, PGUSER, PGDATABASE and so on say where the server is

await pool.query(`
    CREATE EXTENSION IF NOT EXISTS id_gen;
    CREATE TABLE customer (
        id   bigint PRIMARY KEY DEFAULT snowflake_next(),
        name text NOT NULL
    );
    CREATE TABLE purchase (
        id          uuid PRIMARY KEY DEFAULT public.uuidv7(),
        customer_id bigint NOT NULL REFERENCES customer
    );
`);

const inserted = await pool.query("INSERT INTO customer (name) VALUES ($1) RETURNING id", ["Ada"]);
const ada = inserted.rows[0].id; // a string, for example "382943050948677689"

const names = Array.from({ length: 500 }, (_, number) => `customer ${number}`);
const customers = await pool.query("INSERT INTO customer (name) SELECT unnest($1::text[]) RETURNING id", [names]);
const ids = customers.rows.map((customer) => customer.id);
const purchases = await pool.query(
    "INSERT INTO purchase (customer_id) SELECT unnest($1::bigint[]) RETURNING id",
    [ids],
);

const found = await pool.query("SELECT name FROM customer WHERE id = $1", [ada]);
console.log(
    JSON.stringify({
        customers: [ada, ...ids],
        purchases: purchases.rows.map((purchase) => purchase.id),
        found: found.rows.map((customer) => customer.name),
    }),
);
await pool.end();
