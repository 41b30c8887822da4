-- IDs as short text: both ways at the ends (in between, and texts that are none by the thousand:
-- tests/cluster/test_kinds.py), the width, and each reason for a refusal.
CREATE TEMP TABLE formats AS
SELECT format FROM unnest(ARRAY['crockford', 'base32hex', 'base36', 'base58', 'base62']) AS format;
SELECT format, id, id_encode(id, format), id_decode_bigint(id_encode(id, format), format) = id AS both_ways
FROM formats, unnest(ARRAY[0, 1, 175928847299117063, 9223372036854775807, -9223372036854775808, -1]) WITH ORDINALITY AS ids (id, place)
ORDER BY format, place;
SELECT format, id, id_encode(id, format), id_decode_uuid(id_encode(id, format), format) = id AS both_ways
FROM formats, unnest(ARRAY['00000000-0000-0000-0000-000000000000', '017f22e2-79b0-7cc3-98c4-dc0c0c07398f',
                           'ffffffff-ffff-ffff-ffff-ffffffffffff']::uuid[]) WITH ORDINALITY AS ids (id, place)
ORDER BY format, place;
SELECT id_encode(NULL::bigint, 'base58'), id_encode(NULL::uuid, 'base58'), id_encode(1, NULL), id_decode_bigint(NULL, 'base58'),
       id_decode_uuid(NULL, 'base58'), id_decode_bigint('1', NULL);

-- formats that are none
SELECT id_encode(1, 'BASE58');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_bigint('1', 'base64');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_uuid('1', repeat('base58', 1000));
\echo SQLSTATE :SQLSTATE

-- texts that are none
SELECT id_decode_bigint('', 'base58');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_bigint('1111111111', 'base58');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_bigint('111111111l1', 'base58');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_bigint('jpXCZedGfVR', 'base58'); -- 2^64
\echo SQLSTATE :SQLSTATE
SELECT id_decode_bigint('zzzzzzzzzzz', 'base62');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_bigint('000000000000A', 'base36');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_bigint('0000000000001', 'base32hex'); -- the last character has one bit to spare
\echo SQLSTATE :SQLSTATE
SELECT id_decode_bigint('G000000000000', 'crockford');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_uuid('7ZZZZZZZZZZZZZZZZZZZZZZZZU', 'crockford');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_uuid('80000000000000000000000000', 'crockford');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_uuid('VVVVVVVVVVVVVVVVVVVVVVVVVT', 'base32hex');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_uuid('000000000000000000000é', 'base62');
\echo SQLSTATE :SQLSTATE
SELECT id_decode_uuid(repeat('0', 10000), 'base62');
\echo SQLSTATE :SQLSTATE
DROP TABLE formats;
