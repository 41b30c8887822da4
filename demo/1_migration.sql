-- 1. A migration: two tables that make their own keys
--
-- "customer" gets snowflakes: 64-bit numbers that sort by the time they were made.
-- "invoice" gets UUIDv7: the same idea in 128 bits, which need no worker ID.

CREATE EXTENSION id_gen;

CREATE TABLE customer (
    id   bigint PRIMARY KEY DEFAULT snowflake_next(),
    name text NOT NULL
);

CREATE TABLE invoice (
    id          uuid PRIMARY KEY DEFAULT public.uuidv7(),
    customer_id bigint NOT NULL REFERENCES customer,
    amount      numeric NOT NULL
);

INSERT INTO customer (name) VALUES ('Ada'), ('Grace'), ('Barbara') RETURNING id, name;

INSERT INTO invoice (customer_id, amount) SELECT id, 100 FROM customer RETURNING id, customer_id;

CREATE TABLE event (
    id      bigint PRIMARY KEY DEFAULT snowflake_next(),
    client  int NOT NULL,
    reading real NOT NULL
);
