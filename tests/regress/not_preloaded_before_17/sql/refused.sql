-- Without shared memory nothing that needs it works, and each says what to do.
SELECT snowflake_next();
\echo SQLSTATE :SQLSTATE
SELECT snowflake_next_array(10);
\echo SQLSTATE :SQLSTATE
SELECT * FROM snowflake_next_batch(10);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_clock_accept();
\echo SQLSTATE :SQLSTATE
SELECT uuidv7_ordered();
\echo SQLSTATE :SQLSTATE

-- a table that uses it can be made and restored, and filled with IDs from elsewhere
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_next(), note text);
INSERT INTO orders VALUES (snowflake_make('2026-01-01 00:00:00+00', 0, 1, 0), 'restored');
INSERT INTO orders (note) VALUES ('new');
\echo SQLSTATE :SQLSTATE
SELECT id, note FROM orders;
DROP TABLE orders;

-- no other column gets it as its default
CREATE TABLE orders (id bigserial);
SELECT * FROM id_gen_convert_plan('orders', 'id');
\echo SQLSTATE :SQLSTATE
DROP TABLE orders;

-- UUIDs in no order over the whole server need nothing
SELECT count(DISTINCT public.uuidv7()) FROM generate_series(1, 1000);
