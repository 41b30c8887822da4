-- Choosing a kind of ID, and its layout. Every role may call it: it only calculates.

CREATE FUNCTION @extschema@.id_gen_recommend(
        ids_per_second bigint, servers integer, years integer, js_safe boolean DEFAULT false,
        regions integer DEFAULT 1, shards integer DEFAULT 0, secret boolean DEFAULT false,
        sortable boolean DEFAULT NULL, dense boolean DEFAULT false,
        OUT kind text, OUT suitable boolean, OUT layout text, OUT headroom double precision, OUT exhausted_at timestamptz,
        OUT key_column text, OUT key_bytes double precision, OUT advice text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_recommend'
    LANGUAGE c STABLE PARALLEL SAFE ROWS 12;
COMMENT ON FUNCTION @extschema@.id_gen_recommend(bigint, integer, integer, boolean, integer, integer, boolean, boolean, boolean) IS
    'rate all kinds of ID against the given requirements, best first';
