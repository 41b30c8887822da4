// node-postgres: keys taken before their rows are inserted. Prints them as JSON.
import pg from "pg";

const pool = new pg.Pool();
const names = Array.from({ length: 500 }, (_, number) => `customer ${number}`);

const taken = await pool.query("SELECT snowflake_next_array($1) AS keys", [names.length]);
const { keys } = taken.rows[0]; // strings
await pool.query("INSERT INTO customer (id, name) SELECT * FROM unnest($1::bigint[], $2::text[])", [keys, names]);

console.log(JSON.stringify({ keys }));
await pool.end();
