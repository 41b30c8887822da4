-- The parameters: their defaults, and who may change them.
-- (where it was not preloaded, the library is loaded by now, and has read the server's settings)
LOAD 'id_gen';
SELECT name FROM snowflake_layouts() WHERE in_use;
-- (those of the first version: a later one has its row in docs/)
SELECT name, boot_val, unit, min_val, max_val, enumvals FROM pg_settings
WHERE name IN ('id_gen.datacenter_id', 'id_gen.layout', 'id_gen.max_block_size', 'id_gen.max_clock_jump', 'id_gen.max_lead',
               'id_gen.max_wait', 'id_gen.sequence_start', 'id_gen.worker_id')
ORDER BY name COLLATE "C";
SELECT DISTINCT context FROM pg_settings WHERE name LIKE 'id\_gen.%';
SELECT name FROM pg_settings
WHERE name LIKE 'id\_gen.%' AND (short_desc = '' OR extra_desc = '');

-- they belong to the server, not to a session, a role or a database
SET id_gen.worker_id = 6;
\echo SQLSTATE :SQLSTATE
ALTER DATABASE regression SET id_gen.worker_id = 6;
\echo SQLSTATE :SQLSTATE
SELECT set_config('id_gen.max_lead', '1h', false);
\echo SQLSTATE :SQLSTATE
CREATE ROLE ordinary;
SET ROLE ordinary;
ALTER SYSTEM SET id_gen.worker_id = 6;
\echo SQLSTATE :SQLSTATE
SELECT id_gen_clock_accept();
\echo SQLSTATE :SQLSTATE
RESET ROLE;
DROP ROLE ordinary;

-- values are checked when they are set (layouts: tests/cluster/test_layout_names.py)
ALTER SYSTEM SET id_gen.worker_id = -2;
\echo SQLSTATE :SQLSTATE
-- (a number that the layout has no room for is taken: it may have with the next one)
ALTER SYSTEM SET id_gen.worker_id = 99;
ALTER SYSTEM RESET id_gen.worker_id;
ALTER SYSTEM SET id_gen.datacenter_id = 32;
ALTER SYSTEM RESET id_gen.datacenter_id;
ALTER SYSTEM SET id_gen.max_block_size = 0;
\echo SQLSTATE :SQLSTATE
-- (PostgreSQL's versions word this one differently)
\set VERBOSITY sqlstate
ALTER SYSTEM SET id_gen.max_lead = '25h';
\set VERBOSITY default
ALTER SYSTEM SET id_gen.sequence_start = 'random';
\echo SQLSTATE :SQLSTATE
SET id_gen.no_such_thing = 1;
\echo SQLSTATE :SQLSTATE

-- a valid layout waits for the restart, and says so
ALTER SYSTEM SET id_gen.layout = 'wide';
ALTER SYSTEM SET id_gen.layout = 'default';
ALTER SYSTEM SET id_gen.layout = 'epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12';
ALTER SYSTEM RESET id_gen.layout;
