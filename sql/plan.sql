-- Choosing a layout. Every role may call it: it only calculates.

CREATE FUNCTION @extschema@.id_gen_plan(
        ids_per_second bigint, servers integer, years integer, js_safe boolean DEFAULT false,
        OUT layout text, OUT nodes bigint, OUT ids_per_second bigint, OUT headroom double precision,
        OUT runs_out timestamptz, OUT advice text)
    AS 'MODULE_PATHNAME', 'id_gen_plan'
    LANGUAGE c STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.id_gen_plan(bigint, integer, integer, boolean) IS
    'a layout that makes so many IDs a second on each of so many servers for so many years, or what to ask for instead';
