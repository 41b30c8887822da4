import { DataTypes, Sequelize } from "sequelize";

export async function up(queryInterface) {
    await queryInterface.sequelize.query("CREATE EXTENSION IF NOT EXISTS id_gen");
    await queryInterface.createTable("customer", {
        id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue: Sequelize.literal("snowflake_next()") },
        name: { type: DataTypes.TEXT, allowNull: false },
    });
    await queryInterface.createTable("purchase", {
        id: { type: DataTypes.UUID, primaryKey: true, defaultValue: Sequelize.literal("public.uuidv7()") },
        customer_id: { type: DataTypes.BIGINT, allowNull: false, references: { model: "customer", key: "id" } },
    });
}

export async function down(queryInterface) {
    await queryInterface.dropTable("purchase");
    await queryInterface.dropTable("customer");
}
