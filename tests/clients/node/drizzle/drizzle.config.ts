import { defineConfig } from "drizzle-kit";

const { PGHOST, PGUSER, PGDATABASE } = process.env;

export default defineConfig({
    dialect: "postgresql",
    schema: "./schema.ts",
    dbCredentials: { host: PGHOST!, user: PGUSER, database: PGDATABASE!, ssl: false },
    tablesFilter: ["!id_gen_*"],
});
