import dataSource from "./data-source.js";

await dataSource.initialize();
await dataSource.undoLastMigration();
await dataSource.destroy();
