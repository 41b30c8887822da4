export async function up(knex) {
    await knex.raw("CREATE EXTENSION IF NOT EXISTS id_gen");
    await knex.schema.createTable("customer", (table) => {
        table.bigInteger("id").primary().defaultTo(knex.raw("snowflake_next()"));
        table.text("name").notNullable();
    });
    await knex.schema.createTable("purchase", (table) => {
        table.uuid("id").primary().defaultTo(knex.raw("public.uuidv7()"));
        table.bigInteger("customer_id").notNullable().references("customer.id");
    });
}

export async function down(knex) {
    await knex.schema.dropTable("purchase");
    await knex.schema.dropTable("customer");
}
