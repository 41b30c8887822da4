import "reflect-metadata";
import { DataSource } from "typeorm";

import { Customer, Purchase } from "./entities.js";
import { Shop1767225600000 } from "./migration.js";

const { PGHOST: host, PGUSER: username, PGDATABASE: database } = process.env;
export default new DataSource({
    type: "postgres",
    host,
    username,
    database,
    entities: [Customer, Purchase],
    migrations: [Shop1767225600000],
});
