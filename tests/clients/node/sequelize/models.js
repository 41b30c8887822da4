import { DataTypes, Sequelize } from "sequelize";

const { PGHOST: host, PGUSER: username, PGDATABASE: database } = process.env;
export const sequelize = new Sequelize({
    dialect: "postgres",
    host,
    username,
    database,
    define: { freezeTableName: true, timestamps: false, underscored: true },
    logging: false,
});

export const Customer = sequelize.define("customer", {
    id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue: sequelize.literal("snowflake_next()") },
    name: { type: DataTypes.TEXT, allowNull: false },
});

export const Purchase = sequelize.define("purchase", {
    id: { type: DataTypes.UUID, primaryKey: true, defaultValue: sequelize.literal("public.uuidv7()") },
});
Purchase.belongsTo(Customer);
