// Drizzle: inserts one row and many into what drizzle-kit has made. Prints what it was given as JSON.
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";

import { customer, purchase } from "./schema.js";

const pool = new pg.Pool(); // PGHOST, PGUSER, PGDATABASE and so on say where the server is
const db = drizzle(pool);

const [ada] = await db.insert(customer).values({ name: "Ada" }).returning({ id: customer.id }); // ada.id is a BigInt

const names = Array.from({ length: 500 }, (_, number) => ({ name: `customer ${number}` }));
const customers = await db.insert(customer).values(names).returning({ id: customer.id });
const purchases = await db
    .insert(purchase)
    .values(customers.map(({ id }) => ({ customerId: id })))
    .returning({ id: purchase.id });

const found = await db.select({ name: customer.name }).from(customer).where(eq(customer.id, ada.id));
console.log(
    JSON.stringify({
        customers: [ada, ...customers].map(({ id }) => id.toString()),
        purchases: purchases.map(({ id }) => id),
        found: found.map(({ name }) => name),
    }),
);
await pool.end();
