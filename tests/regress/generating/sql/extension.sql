-- The installed objects: what each function promises the planner, and that each explains itself.
\pset format unaligned
SELECT format('%s(%s)', p.proname, pg_get_function_arguments(p.oid)) AS function,
       pg_get_function_result(p.oid) AS result,
       p.provolatile AS volatile, p.proparallel AS parallel, p.proisstrict AS strict
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
JOIN pg_extension e ON e.oid = d.refobjid AND d.deptype = 'e'
WHERE e.extname = 'id_gen'
ORDER BY p.proname, pg_get_function_arguments(p.oid) COLLATE "C";
\pset format aligned
SELECT p.oid::regprocedure AS without_comment
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
JOIN pg_extension e ON e.oid = d.refobjid AND d.deptype = 'e'
WHERE e.extname = 'id_gen' AND obj_description(p.oid, 'pg_proc') IS NULL;

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
SELECT app.id_gen_accept_clock();
\echo SQLSTATE :SQLSTATE

-- dropping it names what hangs on it
DROP EXTENSION id_gen;
\echo SQLSTATE :SQLSTATE
DROP TABLE public.t;
DROP EXTENSION id_gen;
\connect regression postgres
DROP DATABASE migrated;
DROP ROLE migrator;
