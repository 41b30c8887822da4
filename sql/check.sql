-- What may be wrong with a server. Every role may call this function; what it may not see is left out, and a row says so.

CREATE FUNCTION @extschema@.id_gen_check(
        relation regclass DEFAULT NULL, column_name text DEFAULT NULL, newest bigint DEFAULT NULL,
        OUT name text, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_check'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 16
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_check(regclass, text, bigint) IS
    'check this server; or, if a column is given, that its newest ID (read, if omitted) is below the next one of this server';
