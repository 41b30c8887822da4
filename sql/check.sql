-- What may be wrong with a server. Every role may call these functions; what it may not see is left out, and a row says so.

CREATE FUNCTION @extschema@.id_gen_check(
        OUT name text, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_check'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 16
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_check() IS
    'check this server: status (ok, warning or error), finding and remedy';

CREATE FUNCTION @extschema@.id_gen_check(
        relation regclass, column_name text,
        OUT name text, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_check_stored'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_check(regclass, text) IS
    'check that the newest ID stored in a column is below the next one of this server';
