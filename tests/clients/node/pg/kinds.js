// node-postgres: a row of every kind of ID. Prints it as JSON. (In version 8 it reads nothing in binary: it takes every
// value that the server sends for text.)
import pg from "pg";

const pool = new pg.Pool();
const found = await pool.query({ text: "SELECT * FROM kinds", rowMode: "array" });
const asText = (value) => (Array.isArray(value) ? `{${value}}` : value);

console.log(JSON.stringify({ row: found.rows[0].map(asText) }));
await pool.end();
