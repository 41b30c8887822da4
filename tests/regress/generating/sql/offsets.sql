-- Sequences of several servers whose numbers never meet.
\pset null -
CREATE SCHEMA "Shop"; CREATE SCHEMA empty;
SET search_path = "Shop", public;
CREATE TABLE customer (id serial PRIMARY KEY);
CREATE TABLE "Order" ("orderId" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id integer REFERENCES customer);
CREATE TABLE kind (id smallserial PRIMARY KEY, code text DEFAULT 'K' || nextval('"Shop".kind_id_seq'));
CREATE SEQUENCE free_numbers START 1000 CACHE 10;
CREATE TABLE of_both (id bigint DEFAULT nextval('"Shop".free_numbers'));
INSERT INTO customer SELECT FROM generate_series(1, 5);
INSERT INTO customer VALUES (20);
-- As they are, and what will be.
SELECT sequence, columns, increment, last_value, highest, first_value, numbers_left, obstacle FROM id_gen_offsets_plan('"Shop"', 2, 2);
SELECT statement FROM id_gen_offsets_plan('"Shop"', 1, 3, above => 100);
SELECT * FROM id_gen_offsets_plan('empty', 1, 2);
SELECT sequence, first_value FROM id_gen_offsets_plan('"Shop"', 1, 2, sequences => ARRAY['free_numbers'::regclass]);
SELECT sequence, first_value FROM id_gen_offsets_plan('"Shop"', 1, 2, sequences => '{}');
SELECT * FROM id_gen_offsets_check('"Shop"', 2, 2);
-- Done.
SELECT * FROM id_gen_offsets_set('"Shop"', 2, 2);
INSERT INTO customer DEFAULT VALUES RETURNING id;
INSERT INTO "Order" (customer_id) VALUES (1), (1) RETURNING "orderId";
SELECT nextval('free_numbers');
SELECT * FROM id_gen_offsets_check('"Shop"', 2, 2);
-- Again: nothing comes twice.
SELECT * FROM id_gen_offsets_set('"Shop"', 2, 2);
INSERT INTO customer DEFAULT VALUES RETURNING id;
-- What the check sees: another node's division, a row in the way, a new sequence, a start, a CYCLE, an end that is near.
SELECT sequence, status, found FROM id_gen_offsets_check('"Shop"', 1, 2, ARRAY['customer_id_seq'::regclass]);
INSERT INTO customer VALUES (40), (41);
CREATE TABLE later (id serial);
ALTER SEQUENCE kind_id_seq START 1 CYCLE;
ALTER SEQUENCE free_numbers MAXVALUE 1040;
SELECT * FROM id_gen_offsets_check('"Shop"', 2, 2);
-- All or none, and each obstacle with its remedy.
CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE bounded MAXVALUE 10;
SELECT sequence, first_value, obstacle, remedy FROM id_gen_offsets_plan('"Shop"', 2, 2, above => 40000);
SELECT * FROM id_gen_offsets_set('"Shop"', 2, 2);
SELECT id_gen_offsets_set('"Shop"', 2, 2, above => 10, sequences => ARRAY['free_numbers'::regclass, 'bounded']);
ALTER SEQUENCE kind_id_seq NO CYCLE;
ALTER SEQUENCE down INCREMENT BY 1 NO MINVALUE NO MAXVALUE START WITH 1 RESTART WITH 1;
SELECT * FROM id_gen_offsets_set('"Shop"', 2, 2);
SELECT status, found FROM id_gen_offsets_check('"Shop"', 2, 2) WHERE status <> 'ok';
-- A fence, and beyond it.
SELECT * FROM id_gen_offsets_fence('"Shop"', 44, ARRAY['customer_id_seq'::regclass]);
INSERT INTO customer SELECT FROM generate_series(1, 2) RETURNING id;
INSERT INTO customer DEFAULT VALUES;
SELECT id_gen_offsets_fence('"Shop"', 44);
SELECT id_gen_offsets_fence('"Shop"', 100, ARRAY['customer_id_seq'::regclass]);
SELECT id_gen_offsets_set('"Shop"', 2, 3, above => 43, sequences => ARRAY['customer_id_seq'::regclass]);
SELECT * FROM id_gen_offsets_set('"Shop"', 2, 3, above => 44, sequences => ARRAY['customer_id_seq'::regclass]);
SELECT seqmax, seqincrement, seqstart FROM pg_sequence WHERE seqrelid = 'customer_id_seq'::regclass;
TRUNCATE customer RESTART IDENTITY CASCADE;
INSERT INTO customer DEFAULT VALUES RETURNING id;
-- How to grow.
SELECT * FROM id_gen_offsets_grow_plan('"Shop"', 2, 3);
SELECT step, node, statement FROM id_gen_offsets_grow_plan('"Shop"', 1, 2, above => 5000);
-- Refusals.
SELECT id_gen_offsets_plan(NULL, 1, 2);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_plan('empty', NULL, 2);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_plan('empty', 1, NULL);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_plan('empty', 0, 2);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_plan('empty', 3, 2);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_plan('empty', 1, 0);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_plan(0, 1, 2);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_plan('empty', 1, 2, sequences => ARRAY['"Shop".down'::regclass]);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_plan('"Shop"', 1, 2, sequences => ARRAY['"Shop".customer'::regclass]);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_fence('empty', NULL);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_grow_plan('empty', 2, 2);
\echo SQLSTATE :SQLSTATE
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT id_gen_offsets_set('"Shop"', 1, 2);
\echo SQLSTATE :SQLSTATE
ROLLBACK;
-- With the privileges of the caller.
CREATE ROLE stranger; GRANT USAGE ON SCHEMA "Shop" TO stranger; GRANT SELECT ON customer_id_seq, customer TO stranger;
SET ROLE stranger;
SELECT id_gen_offsets_set('"Shop"', 1, 2);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_offsets_set('"Shop"', 1, 2, sequences => ARRAY['customer_id_seq'::regclass]);
\echo SQLSTATE :SQLSTATE
SELECT first_value FROM id_gen_offsets_plan('"Shop"', 1, 2, sequences => ARRAY['customer_id_seq'::regclass]);
RESET ROLE;
ALTER TABLE customer ENABLE ROW LEVEL SECURITY;
SET ROLE stranger;
SELECT id_gen_offsets_plan('"Shop"', 1, 2, sequences => ARRAY['customer_id_seq'::regclass]);
\echo SQLSTATE :SQLSTATE
RESET ROLE;
DROP OWNED BY stranger; DROP ROLE stranger;
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA "Shop" CASCADE;
RESET client_min_messages;
DROP SCHEMA empty;
