-- Moving columns over to IDs of ours. Every role may ask for a plan: it only reads, with the caller's own privileges.

CREATE FUNCTION @extschema@.id_gen_convert_plan(
        relation regclass, column_name text, target text DEFAULT '',
        OUT step integer, OUT statement text, OUT lock_mode text, OUT in_transaction boolean,
        OUT undo text, OUT note text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_convert_plan'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED COST 10000 ROWS 5
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_convert_plan(regclass, text, text) IS
    'the statements that give a column snowflakes (bigint) or UUIDs version 7 (uuid) from now on, in order: the lock that each takes, whether it may run in a transaction block, what takes it back, and why it is there';
