-- 5. The key is also the time: a range query without an index on a timestamp

ANALYZE event;

SELECT min(snowflake_timestamp(id)) + 0.4 * (max(snowflake_timestamp(id)) - min(snowflake_timestamp(id))) AS since,
       min(snowflake_timestamp(id)) + 0.5 * (max(snowflake_timestamp(id)) - min(snowflake_timestamp(id))) AS until
  FROM event \gset

\echo One tenth of the time the load took: :since to :until

SELECT count(*), avg(reading)::numeric(6, 3)
  FROM event WHERE id >= snowflake_min(:'since') AND id < snowflake_min(:'until');

EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)
SELECT count(*), avg(reading)::numeric(6, 3)
  FROM event WHERE id >= snowflake_min(:'since') AND id < snowflake_min(:'until');
