-- Choosing a layout needs neither shared memory nor a preloaded library, nor a privilege. The epoch is this year's: what
-- depends on the day is masked.
CREATE ROLE planner;
SET ROLE planner;
CREATE VIEW pg_temp.requirements AS
SELECT what, p.*
FROM (VALUES ('few', 1::bigint, 1, 40, false),
             ('usual', 10000, 10, 30, false),
             ('much', 3000000, 100, 100, false),
             ('few, for JavaScript', 1000, 32, 20, true),
             ('much, for JavaScript', 100000, 32, 80, true)) AS requirements (what, ids, servers, years, js_safe),
     id_gen_plan(ids, servers, years, js_safe) AS p;
SELECT what, regexp_replace(layout, 'epoch=\d{4}', 'epoch=YYYY') AS layout, nodes, ids_per_second,
       round(headroom::numeric, 2) AS headroom
FROM pg_temp.requirements;
SELECT what, layout LIKE to_char(now() AT TIME ZONE 'UTC', '"epoch="YYYY"-01-01 %"') AS since_this_year
FROM pg_temp.requirements WHERE what = 'usual';
SELECT replace(advice, layout, '...') AS advice FROM pg_temp.requirements WHERE what = 'usual';
RESET ROLE;

-- it lasts as long as was required, to the day, and decoding agrees
SELECT count(*), bool_and(runs_out >= now() + make_interval(years => years)),
       bool_and(snowflake_timestamp(snowflake_max(runs_out - interval '1 ms', layout), layout) < runs_out),
       bool_and(snowflake_max(runs_out - interval '1 ms', layout) < 1::bigint << 53)
FROM generate_series(1, 100) AS years, id_gen_plan(100, 4, years, js_safe => true);

-- where nothing fits, each piece of advice is true when tried, and not of one more
SELECT layout, nodes, ids_per_second, headroom, runs_out, regexp_replace(advice, '\d+ years?', 'N years') AS advice
FROM id_gen_plan(1000000, 64, 30, true);
WITH advised AS (
    SELECT (regexp_match(advice, '(\d+) years?'))[1]::integer AS years FROM id_gen_plan(1000000, 64, 30, true))
SELECT (id_gen_plan(1000000, 64, years, true)).layout IS NOT NULL AS years,
       (id_gen_plan(1000000, 64, years + 1, true)).layout IS NULL AS no_more_years,
       (id_gen_plan(131072, 64, 30, true)).layout IS NOT NULL AS ids,
       (id_gen_plan(131073, 64, 30, true)).layout IS NULL AS no_more_ids,
       (id_gen_plan(1000000, 8, 30, true)).layout IS NOT NULL AS servers,
       (id_gen_plan(1000000, 9, 30, true)).layout IS NULL AS no_more_servers,
       (id_gen_plan(1000000, 64, 30)).layout IS NOT NULL AS without_js_safe
FROM advised;
SELECT * FROM id_gen_plan(9223372036854775807, 2147483647, 2147483647);

-- requirements that are none
SELECT id_gen_plan(0, 1, 1);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_plan(1, -1, 1);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_plan(1, 1, -2147483648);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_plan(NULL, 1, 1);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_plan(1, 1, 1, NULL);
\echo SQLSTATE :SQLSTATE
DROP VIEW pg_temp.requirements;
DROP ROLE planner;
