-- A server without a number generates nothing, however it is asked, and says what to type.
SELECT snowflake_next();
\echo SQLSTATE :SQLSTATE
SELECT snowflake_next_array(10);
\echo SQLSTATE :SQLSTATE
SELECT * FROM snowflake_next_batch(10);
\echo SQLSTATE :SQLSTATE
SELECT snowflake_parse(0);

-- nor does a column get it as its default
CREATE TABLE orders (id bigserial, token uuid);
SELECT * FROM id_gen_convert_plan('orders', 'id');
\echo SQLSTATE :SQLSTATE
SELECT statement FROM id_gen_convert_plan('orders', 'token');
DROP TABLE orders;

-- UUIDs in strict order need no number
SELECT count(DISTINCT uuidv7_ordered()) FROM generate_series(1, 1000);
