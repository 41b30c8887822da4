-- Masks, where no file of keys is set: what is refused, in which order, and what the functions promise the planner. What
-- they return under keys: tests/cluster/test_mask.py.
CREATE EXTENSION id_gen_mask;
SELECT id_mask(1, 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask(1, 'orders', 1);
\echo SQLSTATE :SQLSTATE
SELECT id_mask(uuid '00000000-0000-0000-0000-000000000000', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_mask_text(1, 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_uuid('1_1111111111111111111111', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT * FROM id_mask_keys();
\echo SQLSTATE :SQLSTATE

-- a mistake in the call is told first
SELECT id_mask(1, '');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask(gen_random_uuid(), repeat('x', 256), 1);
\echo SQLSTATE :SQLSTATE
SELECT id_mask_text(1, repeat('é', 128));
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_bigint('1_11111111111', '');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_bigint('', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_bigint('11111111111', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_bigint('01_11111111111', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_bigint('32768_11111111111', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_bigint('1_1111111111', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_bigint('1_1111111111l', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_bigint('1_zzzzzzzzzzz', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT id_unmask_text_uuid('1_11111111111', 'orders');
\echo SQLSTATE :SQLSTATE

-- NULL gives NULL, without keys too
SELECT id_mask(NULL::bigint, 'orders'), id_unmask(1, NULL), id_mask(NULL::uuid, 'orders', 1),
       id_unmask(gen_random_uuid(), 'orders', NULL), id_mask_text(NULL::bigint, 'orders'), id_mask_text(NULL::uuid, ''),
       id_unmask_text_bigint(NULL, 'orders'), id_unmask_text_uuid('1', NULL);

SELECT count(*), count(*) FILTER (WHERE provolatile = 's' AND proisstrict AND proparallel = 'r') AS as_promised
FROM pg_proc WHERE proname IN ('id_mask', 'id_unmask', 'id_mask_text',
                               'id_unmask_text_bigint', 'id_unmask_text_uuid', 'id_mask_keys');

-- only superusers may mask before it is granted; which keys there are is for monitoring
CREATE ROLE ordinary;
CREATE ROLE monitor IN ROLE pg_monitor;
SET ROLE ordinary;
SELECT id_mask(1, 'orders');
\echo SQLSTATE :SQLSTATE
SELECT * FROM id_mask_keys();
\echo SQLSTATE :SQLSTATE
-- (PostgreSQL's versions word this one differently)
\set VERBOSITY sqlstate
SHOW id_gen_mask.key_file;
\set VERBOSITY default
SELECT count(*) FROM pg_settings WHERE name = 'id_gen_mask.key_file';
ALTER SYSTEM SET id_gen_mask.key_file = 'own.keys';
\echo SQLSTATE :SQLSTATE
SET id_gen_mask.key_file = 'own.keys';
\echo SQLSTATE :SQLSTATE
SET ROLE monitor;
SELECT * FROM id_mask_keys();
\echo SQLSTATE :SQLSTATE
RESET ROLE;
SET id_gen_mask.key_file = 'own.keys';
\echo SQLSTATE :SQLSTATE
DROP ROLE ordinary, monitor;
DROP EXTENSION id_gen_mask;
