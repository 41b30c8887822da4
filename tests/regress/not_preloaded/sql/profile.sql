-- What the IDs of a column tell, as far as it does not depend on the server and its clock. Everybody may ask who may read
-- the table.
CREATE TABLE customer (id bigint);
INSERT INTO customer
SELECT snowflake_make(timestamptz '2026-01-01 10:00Z' + i * interval '50 min', i % 2, 3, i * 37 % 64, 'default')
FROM generate_series(1, 6) i;
INSERT INTO customer VALUES (NULL), (7), (-1);
INSERT INTO customer SELECT min(id) FROM customer WHERE id > 7;
CREATE ROLE analyst;
GRANT SELECT ON customer TO analyst;
SET ROLE analyst;
SELECT section, item, ids, round(share::numeric, 3) AS share, first_at AT TIME ZONE 'UTC' AS first_at,
       last_at AT TIME ZONE 'UTC' AS last_at, status
FROM id_gen_profile('customer', 'id', layout => 'default', worker_ids => '{3}') WHERE item <> 'stored_ids';
SELECT section, item, found, remedy
FROM id_gen_profile('customer', 'id', layout => 'default', worker_ids => '{4}')
WHERE item <> 'stored_ids' AND found IS NOT NULL AND section <> 'modulo';
RESET ROLE;
SELECT found FROM id_gen_profile('customer', 'id', 50) WHERE item = 'rows';

CREATE TABLE invoice (id uuid);
INSERT INTO invoice SELECT uuidv7_min(timestamptz '2026-01-01 10:00Z' + i * interval '10 days') FROM generate_series(1, 3) i;
INSERT INTO invoice VALUES ('919108f7-52d1-4320-9bac-f847db4148a8'), ('ffffffff-ffff-ffff-ffff-ffffffffffff');
SELECT section, item, ids, share, first_at AT TIME ZONE 'UTC' AS first_at, last_at AT TIME ZONE 'UTC' AS last_at, status,
       found
FROM id_gen_profile('invoice', 'id');

-- mistakes
CREATE VIEW pg_temp.nothing AS SELECT 'x'::text AS id;
SELECT * FROM id_gen_profile('pg_temp.nothing', 'id');
SELECT * FROM id_gen_profile('customer', 'id', 0);
\echo SQLSTATE :SQLSTATE
SELECT * FROM id_gen_profile('customer', 'id', others => '{customer}');
SELECT * FROM id_gen_profile('customer', 'id', layout => 'twiter');
SELECT * FROM id_gen_profile('customer', 'none');

-- nothing of nothing
SELECT * FROM id_gen_profile(NULL, 'id');

-- pg_partman's encoder and decoders
SELECT snowflake_time_encoder('2026-01-01Z'), snowflake_time_decoder('0304942678016000000') AT TIME ZONE 'UTC' AS decoded;
SELECT uuidv7_time_decoder('017f22e2-79b0-7cc3-98c4-dc0c0c07398f') AT TIME ZONE 'UTC' AS seven,
       uuidv7_time_decoder('919108f7-52d1-4320-9bac-f847db4148a8') AS four;
DROP TABLE customer, invoice;
DROP ROLE analyst;
