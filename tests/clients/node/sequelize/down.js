import { down } from "./migration.js";
import { sequelize } from "./models.js";

await down(sequelize.getQueryInterface());
await sequelize.close();
