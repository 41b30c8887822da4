-- What may be wrong with a server. Every role may call these functions; what it may not see is left out, and a row says so.

CREATE FUNCTION @extschema@.id_gen_check(
        OUT name text, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_check'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 16
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_check() IS
    'what may be wrong with snowflakes on this server, and what to do: ok, warning or error for each check';

CREATE FUNCTION @extschema@.id_gen_check(
        relation regclass, column_name text,
        OUT name text, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_check_stored'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_check(regclass, text) IS
    'whether the newest ID stored in a column lies above what this server has handed out';
