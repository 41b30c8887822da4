-- The IDs of a worker number are its primary's to give.
SELECT pg_is_in_recovery();
SELECT snowflake_next();
\echo SQLSTATE :SQLSTATE
SELECT snowflake_next_array(10);
\echo SQLSTATE :SQLSTATE
SELECT * FROM snowflake_next_batch(10);
\echo SQLSTATE :SQLSTATE

-- what needs no number works
SELECT count(DISTINCT public.uuidv7()) FROM generate_series(1, 1000);
SELECT snowflake_timestamp(175928847299117063, 'discord');
SELECT snowflake_min('2026-01-01 00:00:00+00');
SELECT count(DISTINCT uuidv7_ordered()) FROM generate_series(1, 1000);
