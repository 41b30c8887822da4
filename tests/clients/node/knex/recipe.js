// Knex: migrates, inserts one row and many. Prints what it was given as JSON.
import Knex from "knex";

import settings from "./knexfile.js";

const knex = Knex(settings);
await knex.migrate.latest();

const [ada] = await knex("customer").insert({ name: "Ada" }).returning("id"); // ada.id is a string

const names = Array.from({ length: 500 }, (_, number) => ({ name: `customer ${number}` }));
const customers = await knex.batchInsert("customer", names, 200).returning("id");
const rows = customers.map(({ id }) => ({ customer_id: id }));
const purchases = await knex.batchInsert("purchase", rows, 200).returning("id");

console.log(
    JSON.stringify({
        customers: [ada, ...customers].map(({ id }) => id),
        purchases: purchases.map(({ id }) => id),
        found: await knex("customer").where({ id: ada.id }).pluck("name"),
    }),
);
await knex.destroy();
