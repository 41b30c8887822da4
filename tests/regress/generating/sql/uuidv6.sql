-- UUIDs of versions 6 and 1: properties, and the RFC's examples.
SELECT clock_timestamp() AS started \gset
CREATE TEMP TABLE events (place serial, v6 uuid DEFAULT public.uuidv6(), v1 uuid DEFAULT public.uuidv1());
INSERT INTO events (place) SELECT generate_series(1, 100000);
SELECT count(*), count(DISTINCT v6), count(DISTINCT v1) FROM events;
SELECT DISTINCT public.uuid_extract_version(v6), public.uuid_extract_version(v1) FROM events;
SELECT count(*) AS out_of_order
FROM (SELECT v6, lag(v6) OVER (ORDER BY place) AS previous FROM events) AS pairs
WHERE v6 <= previous;
-- both are of one order: with the time's bits as version 6 has them
CREATE FUNCTION pg_temp.as_version_6(id uuid) RETURNS uuid LANGUAGE sql AS $$
SELECT (substr(hex, 14, 3) || substr(hex, 9, 4) || substr(hex, 1, 5) || '6' || substr(hex, 6, 3) || substr(hex, 17))::uuid
FROM replace(id::text, '-', '') AS hex
$$;
SELECT count(*) AS out_of_order FROM events WHERE pg_temp.as_version_6(v1) <= v6;
SELECT count(*) AS out_of_order
FROM (SELECT v6, lag(pg_temp.as_version_6(v1)) OVER (ORDER BY place) AS previous FROM events) AS pairs
WHERE v6 <= previous;

SELECT bool_and(uuidv6_timestamp(v6) BETWEEN :'started' AND clock_timestamp()),
       bool_and(public.uuid_extract_timestamp(v1) BETWEEN :'started' AND clock_timestamp())
FROM events;
-- no node is a card's address, and each is another
SELECT bool_and(get_bit(uuid_send(v6), 80) = 1 AND get_bit(uuid_send(v1), 80) = 1),
       count(DISTINCT right(v6::text, 12)) > 99990, count(DISTINCT right(v1::text, 12)) > 99990
FROM events;
DROP TABLE events;

-- RFC 9562, appendices A.1 and A.5: one instant; and UUIDs of other versions
SELECT public.uuid_extract_timestamp('C232AB00-9414-11EC-B3C8-9F6BDECED846') = '2022-02-22 19:22:22+00',
       uuidv6_timestamp('1EC9414C-232A-6B00-B3C8-9F6BDECED846') = '2022-02-22 19:22:22+00',
       pg_temp.as_version_6('C232AB00-9414-11EC-B3C8-9F6BDECED846');
SELECT public.uuid_extract_timestamp('1EC9414C-232A-6B00-B3C8-9F6BDECED846'),
       uuidv6_timestamp('C232AB00-9414-11EC-B3C8-9F6BDECED846'), uuidv6_timestamp(gen_random_uuid()), uuidv6_timestamp(NULL);
SET timezone = 'UTC';
SELECT public.uuid_extract_timestamp('00000000-0000-1000-8000-000000000000') AS first_of_1,
       uuidv6_timestamp('00000000-0000-6000-8000-000000000000') AS first_of_6,
       public.uuid_extract_timestamp('ffffffff-ffff-1fff-bfff-ffffffffffff') AS last_of_1,
       uuidv6_timestamp('ffffffff-ffff-6fff-bfff-ffffffffffff') AS last_of_6;

-- bounds: of a microsecond, whoever generated the UUID, and up to the last one that version 6 has
SELECT uuidv6_min('2022-02-22 19:22:22+00'), uuidv6_max('2022-02-22 19:22:22+00'),
       uuidv6_timestamp(uuidv6_min('2022-02-22 19:22:22.000001+00')), uuidv6_timestamp(uuidv6_max('2022-02-22 19:22:22.000001+00'));
SELECT uuidv6_max('2022-02-22 19:22:22+00') < uuidv6_min('2022-02-22 19:22:22.000001+00') AS in_order,
       bool_and(id BETWEEN uuidv6_min(uuidv6_timestamp(id)) AND uuidv6_max(uuidv6_timestamp(id))) AS within
FROM generate_series(1, 1000), LATERAL (SELECT public.uuidv6()) AS made (id);
SELECT uuidv6_min('1582-10-15 00:00+00'), uuidv6_max('5236-03-31 21:21:00.684696+00'), uuidv6_min(NULL), uuidv6_max(NULL);
SELECT uuidv6_min('1582-10-14 23:59:59.999999+00');
\echo SQLSTATE :SQLSTATE
SELECT uuidv6_max('5236-03-31 21:21:00.684697+00');
\echo SQLSTATE :SQLSTATE
SELECT uuidv6_min('infinity');
\echo SQLSTATE :SQLSTATE
SELECT uuidv6_max('-infinity');
\echo SQLSTATE :SQLSTATE
