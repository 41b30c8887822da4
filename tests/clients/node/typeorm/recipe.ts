// TypeORM: migrates, compares the entities with the database, inserts. Prints what it was given as JSON.
import dataSource from "./data-source.js";
import { Customer, Purchase } from "./entities.js";

await dataSource.initialize();
await dataSource.runMigrations();

const repository = dataSource.getRepository(Customer);
const ada = await repository.save({ name: "Ada" }); // ada.id is there now, as a string

const names = Array.from({ length: 500 }, (_, number) => ({ name: `customer ${number}` }));
const customers = await repository.save(names);
const purchases = await dataSource.getRepository(Purchase).insert(customers.map((customer) => ({ customer })));

const drift = async () => (await dataSource.driver.createSchemaBuilder().log()).upQueries.map(({ query }) => query);
const driftAfterMigration = await drift();
await dataSource.synchronize();
const driftAfterSynchronize = await drift();

console.log(
    JSON.stringify({
        customers: [ada, ...customers].map(({ id }) => id),
        purchases: purchases.identifiers.map(({ id }) => id),
        found: (await repository.findBy({ id: ada.id })).map(({ name }) => name),
        drift: [...driftAfterMigration, ...driftAfterSynchronize],
    }),
);
await dataSource.destroy();
