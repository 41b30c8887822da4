-- The installed objects: what each function promises the planner, and that each explains itself. Only exceptions have
-- a row here; the properties of every function are in docs/.
CREATE TEMP VIEW member AS
SELECT p.* FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
JOIN pg_extension e ON e.oid = d.refobjid AND d.deptype = 'e'
WHERE e.extname IN ('id_gen', 'id_gen_tools');
SELECT count(*) > 30 AS many FROM member;
SELECT oid::regprocedure AS not_immutable_though_all_is_given FROM member
WHERE provolatile <> 'i' AND 'layout' = ANY (proargnames[1:pronargs]);
-- (what divides sequences goes by a schema's name)
SELECT oid::regprocedure AS takes_the_servers_layout FROM member WHERE provolatile = 's'
AND proname <> 'id_gen_offsets_grow_plan'
ORDER BY oid::regprocedure::text COLLATE "C";
SELECT oid::regprocedure AS is_a_constant FROM member WHERE provolatile = 'i' AND pronargs = 0;
SELECT oid::regprocedure AS may_be_parallel FROM member WHERE provolatile = 'v' AND proparallel = 's';
SELECT oid::regprocedure AS may_not_be_parallel FROM member WHERE provolatile <> 'v' AND proparallel <> 's';
SELECT oid::regprocedure AS calculates_with_null FROM member WHERE provolatile <> 'v' AND NOT proisstrict AND prokind = 'f';
SELECT oid::regprocedure AS without_comment FROM member WHERE obj_description(oid, 'pg_proc') IS NULL;

-- the library and the SQL objects are of one version, three numbers with points between them
SELECT library_version = extversion AS same_version, library_version ~ '^\d+\.\d+\.\d+$' AS three_numbers
FROM id_gen_server_info(), pg_extension WHERE extname = 'id_gen';

-- whoever owns a database installs it, in the schema of their choice
CREATE ROLE migrator LOGIN;
CREATE DATABASE migrated OWNER migrator;
\connect migrated migrator
CREATE SCHEMA app;
CREATE EXTENSION id_gen SCHEMA app;
CREATE TABLE t (id bigint PRIMARY KEY DEFAULT app.snowflake_next(), u uuid DEFAULT app.uuidv7());
INSERT INTO t DEFAULT VALUES;
SET search_path = '';
INSERT INTO public.t DEFAULT VALUES;
SELECT count(DISTINCT id), count(DISTINCT u), bool_and(app.snowflake_timestamp(id) < now() + interval '1 minute') FROM public.t;
SELECT app.id_gen_clock_accept();
\echo SQLSTATE :SQLSTATE

-- dropping it names what hangs on it
DROP EXTENSION id_gen;
\echo SQLSTATE :SQLSTATE
DROP TABLE public.t;
DROP EXTENSION id_gen;
\connect regression postgres
DROP DATABASE migrated;
DROP ROLE migrator;
