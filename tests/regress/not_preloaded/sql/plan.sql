-- Choosing a layout needs neither shared memory nor a preloaded library, nor a privilege. The epoch is this year's: what
-- depends on the day is masked.
CREATE ROLE planner;
SET ROLE planner;
CREATE VIEW pg_temp.requirements AS
SELECT what, p.*
FROM (VALUES ('few', 1::bigint, 1, 40, false),
             ('few, for a year', 100, 1, 1, false),
             ('usual', 10000, 10, 30, false),
             ('much', 3000000, 100, 100, false),
             ('few, for JavaScript', 1000, 32, 20, true),
             ('much, for JavaScript', 100000, 32, 80, true)) AS requirements (what, ids, servers, years, js_safe),
     id_gen_recommend(ids, servers, years, js_safe) AS p
WHERE p.kind = 'snowflake';
SELECT what, regexp_replace(layout, 'epoch=\d{4}', 'epoch=YYYY') AS layout, headroom
FROM pg_temp.requirements;
SELECT what, layout LIKE to_char(now() AT TIME ZONE 'UTC', '"epoch="YYYY"-01-01 %"') AS since_this_year
FROM pg_temp.requirements WHERE what = 'usual';
SELECT replace(advice, layout, '...') AS advice FROM pg_temp.requirements WHERE what = 'usual';
RESET ROLE;

-- it lasts as long as was required, to the day, and decoding agrees
SELECT count(*), bool_and(exhausted_at >= now() + make_interval(years => years)),
       bool_and(snowflake_timestamp(snowflake_max(exhausted_at - interval '1 ms', layout), layout) < exhausted_at),
       bool_and(snowflake_max(exhausted_at - interval '1 ms', layout) < 1::bigint << 53)
FROM generate_series(1, 100) AS years, id_gen_recommend(100, 4, years, js_safe => true) WHERE kind = 'snowflake';

-- where nothing fits, each piece of advice is true when tried, and not of one more
SELECT layout, headroom, exhausted_at, regexp_replace(advice, '\d+ years?', 'N years') AS advice
FROM id_gen_recommend(1000000, 64, 30, true) WHERE kind = 'snowflake';
CREATE FUNCTION pg_temp.is_there(bigint, integer, integer, js_safe boolean DEFAULT false) RETURNS boolean LANGUAGE sql
    AS $$ SELECT layout IS NOT NULL AND suitable FROM public.id_gen_recommend($1, $2, $3, js_safe) WHERE kind = 'snowflake' $$;
WITH advised AS (
    SELECT (regexp_match(advice, '(\d+) years?'))[1]::integer AS years
    FROM id_gen_recommend(1000000, 64, 30, true) WHERE kind = 'snowflake')
SELECT pg_temp.is_there(1000000, 64, years, true) AS years,
       NOT pg_temp.is_there(1000000, 64, years + 1, true) AS no_more_years,
       pg_temp.is_there(131072, 64, 30, true) AS ids,
       NOT pg_temp.is_there(131073, 64, 30, true) AS no_more_ids,
       pg_temp.is_there(1000000, 8, 30, true) AS servers,
       NOT pg_temp.is_there(1000000, 9, 30, true) AS no_more_servers,
       pg_temp.is_there(1000000, 64, 30) AS without_js_safe
FROM advised;
SELECT kind, suitable, layout, advice FROM id_gen_recommend(9223372036854775807, 2147483647, 2147483647) WHERE kind = 'snowflake';

-- every kind, for each wish; the best first
SELECT kind, suitable, round(headroom::numeric, 2) AS headroom, key_bytes, CASE WHEN NOT suitable THEN advice END AS misfit
FROM id_gen_recommend(ids_per_second => 10000, servers => 10, years => 30);
SELECT kind, key_column, regexp_replace(advice, 'epoch=\d{4}', 'epoch=YYYY') AS advice
FROM id_gen_recommend(10000, 10, 30, regions => 3, shards => 500) WHERE suitable;
SELECT kind, key_column, regexp_replace(advice, 'epoch=\d{4}', 'epoch=YYYY') AS advice
FROM id_gen_recommend(100, 10, 30, regions => 3, sortable => false);
SELECT wish, string_agg(kind, ', ' ORDER BY place) FILTER (WHERE suitable) AS fit
FROM (VALUES (1, 'one server', 1, false, 1, 0, false, true, false),
             (2, 'secret', 10, false, 1, 0, true, true, false),
             (3, 'secret, in any order', 10, false, 1, 0, true, false, false),
             (4, 'secret, in any order, for JavaScript', 10, true, 1, 0, true, false, false),
             (5, 'of shards', 10, false, 1, 500, false, true, false),
             (6, 'dense, on one server', 1, false, 1, 0, false, true, true),
             (7, 'dense, in any order', 10, false, 2, 0, false, false, true),
             (8, 'dense, in order', 10, false, 1, 0, false, true, true))
         AS wishes (number, wish, servers, js_safe, regions, shards, secret, sortable, dense),
     LATERAL (SELECT kind, suitable, row_number() OVER () AS place
                FROM id_gen_recommend(1000, servers, 30, js_safe, regions, shards, secret, sortable, dense)) AS planned
GROUP BY number, wish ORDER BY number;
SELECT kind, advice FROM id_gen_recommend(1000, 10, 30, true, secret => true, dense => true);

-- secret IDs need not sort, unless that is asked for
SELECT string_agg(kind, ', ') FILTER (WHERE suitable) AS fit, count(*) FILTER (WHERE NOT suitable AND advice LIKE '%sortable => false%') AS unsorted
FROM (VALUES (NULL), (false), (true)) AS asked (sortable),
     LATERAL id_gen_recommend(1000, 10, 30, secret => true, sortable => asked.sortable) GROUP BY sortable ORDER BY sortable NULLS FIRST;
-- so many, or for so long, that random bits and the time do not suffice
SELECT kind, advice FROM id_gen_recommend(1000000000000, 1, 1) WHERE kind ~ '^u|^typeid';
SELECT kind, advice FROM id_gen_recommend(1, 1, 100000) WHERE kind ~ '^u|^typeid';
SELECT kind, exhausted_at > now() + interval '30 years' AS lasts FROM id_gen_recommend(1000, 3, 30) WHERE exhausted_at IS NOT NULL;

-- in psql's expanded form a row fits into 80 columns, but for the layout of several regions
\x
SELECT * FROM id_gen_recommend(10000, 10, 30) WHERE kind = 'uuidv4';
\x
SELECT max(length(line)) AS widest
FROM (VALUES (10000, 1, false), (10000, 200, false), (1000000, 1000000, true)) AS asked (ids, servers, js),
     (VALUES (0), (500)) AS s (shards), (VALUES (false), (true)) AS c (secret),
     LATERAL id_gen_recommend(ids, servers, 30, js, shards => shards, secret => secret) AS it,
     LATERAL string_to_table(concat_ws(E'\n', it.kind, it.layout, it.key_column, it.advice), E'\n') AS line;

-- requirements that are none
SELECT id_gen_recommend(0, 1, 1);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_recommend(1, -1, 1);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_recommend(1, 1, -2147483648);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_recommend(NULL, 1, 1);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_recommend(1, 1, 1, NULL);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_recommend(1, 1, 1, regions => 0);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_recommend(1, 1, 1, shards => -1);
\echo SQLSTATE :SQLSTATE
SELECT id_gen_recommend(1, 1, 1, shards => NULL);
\echo SQLSTATE :SQLSTATE
DROP VIEW pg_temp.requirements;
DROP ROLE planner;
