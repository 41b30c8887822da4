-- ULIDs: properties, the specification's example, and what is no ULID.
SELECT clock_timestamp() AS started \gset
SET timezone = 'UTC';
CREATE TEMP TABLE events (place serial, id uuid DEFAULT ulid());
INSERT INTO events (place) SELECT generate_series(1, 100000);
SELECT count(*), count(DISTINCT id) FROM events;
SELECT count(*) AS out_of_order
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS previous,
             ulid_encode(id) COLLATE "C" AS text, lag(ulid_encode(id) COLLATE "C") OVER (ORDER BY place) AS previous_text
      FROM events) AS pairs
WHERE id <= previous OR text <= previous_text;
SELECT bool_and(ulid_timestamp(id) BETWEEN :'started' AND clock_timestamp()),
       bool_and(id BETWEEN ulid_min(ulid_timestamp(id)) AND ulid_max(ulid_timestamp(id))),
       bool_and(ulid_decode(ulid_encode(id)) = id), bool_and(ulid_encode(id) ~ '^0[0-9A-HJKMNP-TV-Z]{25}$')
FROM events;
SELECT count(*) AS suspicious_bits
FROM (SELECT bit, avg(get_bit(uuid_send(id), bit)) AS share
      FROM events, generate_series(72, 127) AS bit GROUP BY bit) AS bits
WHERE share NOT BETWEEN 0.45 AND 0.55;
DROP TABLE events;

SELECT ulid_timestamp(ulid_decode('01ARYZ6S41TSV4RRFFQ69G5FAV'));
SELECT ulid_encode('00000000-0000-0000-0000-000000000000'), ulid_encode('ffffffff-ffff-ffff-ffff-ffffffffffff');
SELECT ulid_decode('00000000000000000000000000'), ulid_decode('7ZZZZZZZZZZZZZZZZZZZZZZZZZ');
SELECT ulid_min('2016-07-30 23:54:10.259+00'), ulid_max('2016-07-30 23:54:10.259999+00');
SELECT ulid_encode(ulid_min('1970-01-01 00:00:00+00')), ulid_encode(ulid_max('10889-08-02 05:31:50.655+00'));
SELECT ulid_encode(NULL), ulid_decode(NULL), ulid_timestamp(NULL), ulid_min(NULL), ulid_max(NULL);

SELECT ulid_min('1969-12-31 23:59:59.999+00');
\echo SQLSTATE :SQLSTATE
SELECT ulid_max('infinity');
\echo SQLSTATE :SQLSTATE
SELECT ulid_decode('80000000000000000000000000');
\echo SQLSTATE :SQLSTATE
SELECT ulid_decode('01ARYZ6S41TSV4RRFFQ69G5FA');
\echo SQLSTATE :SQLSTATE
SELECT ulid_decode('01ARYZ6S41TSV4RRFFQ69G5FAVA');
\echo SQLSTATE :SQLSTATE
SELECT ulid_decode('01aryz6s41tsv4rrffq69g5fav');
\echo SQLSTATE :SQLSTATE
SELECT ulid_decode('01ARYZ6S41TSV4RRFFQ69G5FAU');
\echo SQLSTATE :SQLSTATE
SELECT ulid_decode('01ARYZ6S41TSV4RRFFQ69G5Fé');
\echo SQLSTATE :SQLSTATE
SELECT ulid_decode(repeat('0', 1000));
\echo SQLSTATE :SQLSTATE
