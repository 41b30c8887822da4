// Sequelize: migrates, lets sync() look at what is there, inserts. Prints what it was given as JSON.
import { up } from "./migration.js";
import { Customer, Purchase, sequelize } from "./models.js";

await up(sequelize.getQueryInterface());
await sequelize.sync({ alter: true });
const altered = [];
await sequelize.sync({ alter: true, logging: (statement) => statement.includes("ALTER") && altered.push(statement) });

const ada = await Customer.create({ name: "Ada" }); // ada.id is a string

const names = Array.from({ length: 500 }, (_, number) => ({ name: `customer ${number}` }));
const customers = await Customer.bulkCreate(names);
const purchases = await Purchase.bulkCreate(customers.map(({ id }) => ({ customerId: id })));

console.log(
    JSON.stringify({
        customers: [ada, ...customers].map(({ id }) => id),
        purchases: purchases.map(({ id }) => id),
        found: [(await Customer.findByPk(ada.id)).name],
        altered,
    }),
);
await sequelize.close();
