-- What all statistics views are made of.

CREATE FUNCTION @extschema@.id_gen_stat_get(view text) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_stat_get'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_stat_get(text) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_stat_get(text) IS
    'data of a statistics view; query the view instead';
