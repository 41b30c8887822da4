CREATE EXTENSION IF NOT EXISTS id_gen;

CREATE TABLE customer (
    id   bigint PRIMARY KEY DEFAULT snowflake_next(),
    name text NOT NULL
);

CREATE TABLE purchase (
    id          uuid PRIMARY KEY DEFAULT public.uuidv7(),
    customer_id bigint NOT NULL REFERENCES customer
);
