-- Generating: properties, since the IDs themselves are never the same.
SELECT clock_timestamp() AS started \gset

-- one row at a time, as a column default, in order
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_next(), line int);
INSERT INTO orders (line) SELECT generate_series(1, 10000);
SELECT count(*), count(DISTINCT id) FROM orders;
SELECT count(*) AS out_of_order
FROM (SELECT id, lag(id) OVER (ORDER BY line) AS previous FROM orders) AS pairs
WHERE id <= previous;

-- every ID carries this server's node and the time of its making
SELECT DISTINCT datacenter_id, worker_id FROM orders, snowflake_parse(id);
SELECT bool_and(created_at BETWEEN :'started' AND now() + interval '6 seconds')
FROM orders, snowflake_parse(id);
SELECT bool_and(id = snowflake_make(created_at, datacenter_id, worker_id, sequence))
FROM orders, snowflake_parse(id);
SELECT bool_and(id BETWEEN snowflake_min(created_at) AND snowflake_max(created_at))
FROM orders, snowflake_parse(id);

-- RETURNING gives what was stored
WITH inserted AS (INSERT INTO orders (line) VALUES (0) RETURNING id)
SELECT count(*) FROM inserted;

-- a batch and an array are strictly increasing and go on after single IDs
SELECT count(*), count(DISTINCT id) FROM snowflake_next_batch(100000) AS id;
SELECT count(*) AS out_of_order
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS previous
      FROM snowflake_next_batch(100000) WITH ORDINALITY AS batch (id, place)) AS pairs
WHERE id <= previous;
SELECT cardinality(snowflake_next_array(100000));
SELECT count(*) AS gaps_within_a_tick
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS previous
      FROM unnest(snowflake_next_array(100000)) WITH ORDINALITY AS batch (id, place)) AS pairs
WHERE id <> previous + 1 AND snowflake_timestamp(id) = snowflake_timestamp(previous);
SELECT a < b AND b < c[1] AND c[3] < d AS in_order
FROM (SELECT snowflake_next() AS a, snowflake_next() AS b, snowflake_next_array(3) AS c, snowflake_next() AS d) AS ids;
SELECT count(*) FROM (SELECT snowflake_next_batch(5) AS id LIMIT 3) AS stopped_early;
SELECT snowflake_next_batch(2) > 0 AS id, generate_series(1, 3) AS beside_another_set;

-- a count must be a positive number that fits
SELECT snowflake_next_array(0);
\echo SQLSTATE :SQLSTATE
SELECT snowflake_next_batch(-1);
\echo SQLSTATE :SQLSTATE
SELECT * FROM snowflake_next_batch(0);
\echo SQLSTATE :SQLSTATE
SELECT snowflake_next_array(NULL);
\echo SQLSTATE :SQLSTATE
SELECT * FROM snowflake_next_batch(NULL);
\echo SQLSTATE :SQLSTATE
SELECT snowflake_next_array(2147483647);
\echo SQLSTATE :SQLSTATE

-- a refused call leaves the session as it was
SELECT snowflake_next() > max(id) AS goes_on FROM orders;

-- a read-only transaction may generate: nothing is written to the database
BEGIN READ ONLY;
SELECT snowflake_next() > 0 AS id;
ROLLBACK;

-- a time range is an index range
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM orders
WHERE id >= snowflake_min('2026-01-01 00:00:00+00', 'default') AND id < snowflake_min('2026-02-01 00:00:00+00', 'default');
EXPLAIN (COSTS OFF) SELECT count(*) FROM orders
WHERE id >= snowflake_min('2026-01-01 00:00:00+00') AND id < snowflake_min('2026-02-01 00:00:00+00');

-- the explicit layout makes decoding immutable: it can be indexed and generated
CREATE INDEX ON orders (snowflake_timestamp(id, 'default'));
ALTER TABLE orders ADD created_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'default')) STORED;
-- where in the statement the error is, only 19 and later say
\set VERBOSITY sqlstate
CREATE INDEX ON orders (snowflake_timestamp(id));
\set VERBOSITY default
SELECT bool_and(created_at = snowflake_timestamp(id)) FROM orders;

DROP TABLE orders;
