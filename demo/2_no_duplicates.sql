-- 2. A million rows from eight clients: not one key twice
--
-- The primary key would have refused a duplicate. Counting says the same, and shows that all
-- eight clients were writing at the same time.

SELECT count(*) AS rows, count(DISTINCT id) AS ids, count(*) - count(DISTINCT id) AS duplicates FROM event;

SELECT client, count(*) AS rows,
       min(snowflake_timestamp(id))::time(3) AS first, max(snowflake_timestamp(id))::time(3) AS last
  FROM event GROUP BY client ORDER BY client;
