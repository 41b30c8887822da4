import { sql } from "drizzle-orm";
import { bigint, pgTable, text, uuid } from "drizzle-orm/pg-core";

export const customer = pgTable("customer", {
    id: bigint("id", { mode: "bigint" }).primaryKey().default(sql`snowflake_next()`),
    name: text("name").notNull(),
});

export const purchase = pgTable("purchase", {
    id: uuid("id").primaryKey().default(sql`uuidv7()`),
    customerId: bigint("customer_id", { mode: "bigint" })
        .notNull()
        .references(() => customer.id),
});
