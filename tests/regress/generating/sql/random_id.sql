-- Random IDs: properties, since they are never the same; how likely it is that two are alike; and mistakes.
CREATE TEMP TABLE tokens AS
SELECT id_random() AS plain, id_random('BIZ', 20, '0123456789ABCDEF') AS business FROM generate_series(1, 100000);
SELECT count(*), count(DISTINCT plain), count(DISTINCT business) FROM tokens;
SELECT bool_and(plain ~ '^[0-9A-Za-z_-]{21}$'), bool_and(business ~ '^BIZ[0-9A-F]{20}$') FROM tokens;
SELECT bool_and(id_random_parse(plain) = plain),
       bool_and('BIZ' || id_random_parse(business, 'BIZ', 20, '0123456789ABCDEF') = business)
FROM tokens;
-- each character comes as often as any other, in each place
SELECT count(*) AS characters, count(*) FILTER (WHERE times NOT BETWEEN 31000 AND 34700) AS suspicious
FROM (SELECT count(*) AS times FROM tokens, regexp_split_to_table(plain, '') AS letter GROUP BY letter) AS letters;
SELECT count(*) AS characters, count(*) FILTER (WHERE times NOT BETWEEN 5700 AND 6800) AS suspicious
FROM (SELECT count(*) AS times
      FROM tokens, regexp_split_to_table(right(business, 20), '') WITH ORDINALITY AS letters (letter, place)
      GROUP BY letter, place) AS letters;
DROP TABLE tokens;
SELECT length(id_random('', 1024)), id_random('é😀', 1, 'ab') ~ '^é😀[ab]$', id_random(size => 5, alphabet => '01') ~ '^[01]{5}$';
SELECT id_random_parse('é😀ba', 'é😀', 2, 'ab');
SELECT id_random(NULL), id_random('', NULL), id_random('', 1, NULL), id_random_parse(NULL);

-- how likely two are alike
SELECT id_random_collision_probability(1e9) < 1.0e-18 AS tiny,
       round(id_random_collision_probability(1e9, 20, '0123456789ABCDEF')::numeric, 9) AS of_80_bits,
       round(id_random_collision_probability(2, 1, 'ab')::numeric, 3) AS of_1_bit,
       id_random_collision_probability(0), id_random_collision_probability(1e300);
SELECT id_random_collision_probability(NULL), id_random_collision_probability(1, NULL), id_random_collision_probability(1, 1, NULL);

-- mistakes
SELECT id_random('', 0);
\echo SQLSTATE :SQLSTATE
SELECT id_random('', 1025);
\echo SQLSTATE :SQLSTATE
SELECT id_random('', 10, 'a');
\echo SQLSTATE :SQLSTATE
SELECT id_random('', 10, 'aba');
\echo SQLSTATE :SQLSTATE
SELECT id_random('', 10, 'abä');
\echo SQLSTATE :SQLSTATE
SELECT id_random('', 10, repeat('ab ', 100));
\echo SQLSTATE :SQLSTATE
SELECT id_random_parse('BUZ0123456789ABCDEF0123', 'BIZ', 20, '0123456789ABCDEF');
\echo SQLSTATE :SQLSTATE
SELECT id_random_parse('BIZ0123456789ABCDEF012', 'BIZ', 20, '0123456789ABCDEF');
\echo SQLSTATE :SQLSTATE
SELECT id_random_parse('BIZ0123456789ABCDEF012é', 'BIZ', 20, '0123456789ABCDEF');
\echo SQLSTATE :SQLSTATE
SELECT id_random_parse('BIZ0123456789abcdef0123', 'BIZ', 20, '0123456789ABCDEF');
\echo SQLSTATE :SQLSTATE
SELECT id_random_collision_probability(-1);
\echo SQLSTATE :SQLSTATE
SELECT id_random_collision_probability('NaN');
\echo SQLSTATE :SQLSTATE
SELECT id_random_collision_probability(1, 0);
\echo SQLSTATE :SQLSTATE
SELECT id_random_collision_probability(1, 1, 'a');
\echo SQLSTATE :SQLSTATE

-- More than there can be, and more than a number holds.
SELECT id_random_collision_probability(3, 1, 'ab'), id_random_collision_probability(1e300, 1024), id_random_collision_probability('Infinity', 1024);
