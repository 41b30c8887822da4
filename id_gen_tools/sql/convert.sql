-- Moving columns over to IDs of ours. Every role may ask for a plan: it only reads, with the caller's own privileges. Starting
-- a job takes those of the tables' owner, and CREATE on the database for the schema that the first job makes.

CREATE FUNCTION @extschema@.id_gen_convert_plan(
        relation regclass, column_name text, target text DEFAULT '', created_at text DEFAULT '',
        worker_id integer DEFAULT -1, datacenter_id integer DEFAULT -1,
        OUT step integer, OUT statement text, OUT lock_mode text, OUT in_transaction boolean,
        OUT undo text, OUT note text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_convert_plan'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED COST 10000 ROWS 5
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_convert_plan(regclass, text, text, text, integer, integer) IS
    'list the statements that convert a column to snowflakes or UUIDv7, in order';

CREATE FUNCTION @extschema@.id_gen_convert_start(
        relation regclass, column_name text, target text DEFAULT '', created_at text DEFAULT '',
        worker_id integer DEFAULT -1, datacenter_id integer DEFAULT -1)
    RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_convert_start'
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_convert_start(regclass, text, text, text, integer, integer) IS
    'start a job that converts a column, as id_gen_convert_plan() proposes; id_gen_convert.todo() then lists what remains';
