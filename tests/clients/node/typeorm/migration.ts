import type { MigrationInterface, QueryRunner } from "typeorm";

export class Shop1767225600000 implements MigrationInterface {
    async up(queryRunner: QueryRunner): Promise<void> {
        await queryRunner.query("CREATE EXTENSION IF NOT EXISTS id_gen");
        await queryRunner.query(`
            CREATE TABLE customer (
                id   bigint PRIMARY KEY DEFAULT snowflake_next(),
                name text NOT NULL
            )
        `);
        await queryRunner.query(`
            CREATE TABLE purchase (
                id          uuid PRIMARY KEY DEFAULT uuidv7(),
                customer_id bigint NOT NULL REFERENCES customer
            )
        `);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
        await queryRunner.query("DROP TABLE purchase, customer");
    }
}
