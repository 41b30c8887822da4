-- Sqids: the specification's examples, both ways, and what is none.
SELECT numbers, sqids_encode(numbers), sqids_decode(sqids_encode(numbers)) = numbers AS both_ways
FROM unnest(ARRAY['{}', '{0}', '{1,2,3}', '{9223372036854775807}', '{0,1,2,3,4,5,6,7,8,9}']::text[]) WITH ORDINALITY AS given (text, place),
     LATERAL (SELECT text::bigint[]) AS cast_ (numbers)
ORDER BY place;
SELECT sqids_encode(ARRAY[1, 2, 3], 10), sqids_decode(sqids_encode(ARRAY[1, 2, 3], 10), 10);
SELECT sqids_encode(ARRAY[1, 2, 3], 0, '0123456789abcdef'), sqids_decode('489158', 0, '0123456789abcdef');
SELECT min_length, length(sqids_encode(ARRAY[7], min_length)) FROM unnest(ARRAY[0, 1, 255]) AS min_length;
SELECT count(*), bool_and(sqids_decode(sqids_encode(ARRAY[a, b])) = ARRAY[a, b]), count(DISTINCT sqids_encode(ARRAY[a, b]))
FROM generate_series(0::bigint, 99) AS a, generate_series(0::bigint, 99) AS b;
SELECT sqids_encode(NULL), sqids_decode(NULL), sqids_encode('{1}', NULL), sqids_decode('Uk', 0, NULL);

-- mistakes
SELECT sqids_encode('{-1}');
\echo SQLSTATE :SQLSTATE
SELECT sqids_encode('{1,NULL}');
\echo SQLSTATE :SQLSTATE
SELECT sqids_encode(array_fill(1, ARRAY[101]));
\echo SQLSTATE :SQLSTATE
SELECT sqids_encode('{1}', 256);
\echo SQLSTATE :SQLSTATE
SELECT sqids_encode('{1}', -1);
\echo SQLSTATE :SQLSTATE
SELECT sqids_encode('{1}', 0, 'ab');
\echo SQLSTATE :SQLSTATE
SELECT sqids_encode('{1}', 0, 'abca');
\echo SQLSTATE :SQLSTATE
SELECT sqids_encode('{1}', 0, 'abé');
\echo SQLSTATE :SQLSTATE
SELECT sqids_decode('86Rf07é');
\echo SQLSTATE :SQLSTATE
SELECT sqids_decode('86Rf07', 10);
\echo SQLSTATE :SQLSTATE
SELECT sqids_decode('86Rf08');
\echo SQLSTATE :SQLSTATE

-- What other libraries write: a number above a bigint, and more numbers than are read. Neither is the alphabet's fault.
SELECT sqids_decode('AqkYhRmbHpEX');
SELECT sqids_decode('pXFNc5r689z6');
\echo SQLSTATE :SQLSTATE
SELECT sqids_decode('MqnoyTR2IUMv53icmXq5m3LjIuTnytoqxgYDfULb4cHvtTsxA94iOy2S2MsrDQeOZ7QnQ3Q9QcmD2vC0OvJK4ejKQalmE2oji31mL9EZTK3wpQIHoi5GvRVP11iNDlnnsxd1Is7cKOtS0Gnl3TxqRNCLMCsNNixwdEP4RQldkGSm4AG2FwgiEUiGbcLf2q8TTnqiHrOJ4brkeUS29RlCKhkHVxMZjJGzR0owNOQ2IECvhV1oZO');
\echo SQLSTATE :SQLSTATE
SELECT sqids_decode(repeat('a', 10000));
\echo SQLSTATE :SQLSTATE

-- What is too large is refused before anything is made of it.
SELECT sqids_encode(array_fill(1::bigint, ARRAY[1000000]));
SELECT sqids_encode(ARRAY[1], 0, repeat('ab', 1000000));
