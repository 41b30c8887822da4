-- UUIDs of version 7: properties, since they are never the same, and bounds.
SELECT clock_timestamp() AS started \gset
CREATE TABLE events (place serial, id uuid DEFAULT public.uuidv7());
INSERT INTO events (place) SELECT generate_series(1, 100000);
SELECT count(*), count(DISTINCT id) FROM events;
SELECT count(*) AS out_of_order
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS previous FROM events) AS pairs
WHERE id <= previous;
SELECT DISTINCT public.uuid_extract_version(id) FROM events;
SELECT bool_and(uuidv7_timestamp(id) BETWEEN :'started' AND clock_timestamp()) FROM events;
SELECT bool_and(public.uuid_extract_timestamp(id) = uuidv7_timestamp(id)) FROM events;
SELECT bool_and(id BETWEEN uuidv7_min(uuidv7_timestamp(id)) AND uuidv7_max(uuidv7_timestamp(id))) FROM events;

-- the random part is random: each bit of its last seven bytes is set about half the time
SELECT count(*) AS suspicious_bits
FROM (SELECT bit, avg(get_bit(uuid_send(id), bit)) AS share
      FROM events, generate_series(72, 127) AS bit GROUP BY bit) AS bits
WHERE share NOT BETWEEN 0.45 AND 0.55;

-- shifted
SELECT uuidv7_timestamp(public.uuidv7('-1 day')) BETWEEN now() - interval '1 day 1 minute' AND now() - interval '23:59';
SELECT extract(year FROM uuidv7_timestamp(public.uuidv7('8000 years'))) = extract(year FROM now()) + 8000 AS far_future;
SELECT count(*) AS out_of_order
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS previous
      FROM (SELECT place, public.uuidv7('1 hour') AS id FROM generate_series(1, 10000) AS place) AS ids) AS pairs
WHERE id <= previous;
SELECT public.uuidv7(NULL) IS NULL;
SELECT public.uuidv7('-100 years');
\echo SQLSTATE :SQLSTATE
SELECT public.uuidv7('9000 years');
\echo SQLSTATE :SQLSTATE

-- bounds
SELECT uuidv7_min('2022-02-22 19:22:22+00'), uuidv7_max('2022-02-22 19:22:22.000999+00');
SELECT uuidv7_min('1970-01-01 00:00:00+00'), uuidv7_max('10889-08-02 05:31:50.655+00');
SELECT uuidv7_min('1969-12-31 23:59:59.999+00');
\echo SQLSTATE :SQLSTATE
SELECT uuidv7_max('10889-08-02 05:31:50.656+00');
\echo SQLSTATE :SQLSTATE
SELECT uuidv7_min('infinity');
\echo SQLSTATE :SQLSTATE
SELECT uuidv7_max('-infinity');
\echo SQLSTATE :SQLSTATE

-- RFC 9562, appendix A.6, and UUIDs of other versions
SELECT uuidv7_timestamp('017F22E2-79B0-7CC3-98C4-DC0C0C07398F') = '2022-02-22 19:22:22+00';
SELECT uuidv7_timestamp(gen_random_uuid()), uuidv7_timestamp('C232AB00-9414-11EC-B3C8-9F6BDECED846'), uuidv7_timestamp(NULL);
SELECT uuidv7_time_decoder('017F22E2-79B0-7CC3-98C4-DC0C0C07398F') = '2022-02-22 19:22:22+00',
       uuidv7_time_decoder(gen_random_uuid()::text);
SELECT uuidv7_time_decoder('017F22E2');
\echo SQLSTATE :SQLSTATE
DROP TABLE events;

-- many at once: strictly increasing, also after those before and with others between
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE public.uuid_extract_version(id) = 7)
FROM uuidv7_next_batch(100000) AS id;
CREATE TEMP TABLE batch AS
SELECT id, place, public.uuidv7() AS between FROM uuidv7_next_batch(1000) WITH ORDINALITY AS batch (id, place);
SELECT count(*) AS out_of_order
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS previous FROM batch) AS pairs
WHERE id <= previous;
SELECT max(id) < public.uuidv7() AS next_is_larger FROM batch;
DROP TABLE batch;
SELECT count(*) FROM (SELECT uuidv7_next_batch(5) AS id LIMIT 3) AS stopped_early;
SELECT count(*) FROM uuidv7_next_batch(-1);
\echo SQLSTATE :SQLSTATE
SELECT count(*) FROM uuidv7_next_batch(NULL);
\echo SQLSTATE :SQLSTATE

-- in strict order over the server (beside others, and when the clock is set back: tests/cluster/test_kinds.py)
CREATE TABLE events (place serial, id uuid DEFAULT uuidv7_ordered());
INSERT INTO events (place) SELECT generate_series(1, 100000);
SELECT count(*) AS out_of_order
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS previous FROM events) AS pairs
WHERE id <= previous;
SELECT DISTINCT public.uuid_extract_version(id) FROM events;
SELECT bool_and(uuidv7_timestamp(id) BETWEEN :'started' AND clock_timestamp()) FROM events;
SELECT count(*) AS suspicious_bits -- of the 54 that are random
FROM (SELECT bit, avg(get_bit(uuid_send(id), bit)) AS share
      FROM events, generate_series(80, 127) AS bit GROUP BY bit) AS bits
WHERE share NOT BETWEEN 0.45 AND 0.55;
DROP TABLE events;
