-- Whether a server generates, and what with: for members of pg_read_all_stats. What every role can learn from settings and
-- from new IDs is for every role: what id_gen_tools works with.

CREATE FUNCTION @extschema@.id_gen_status(
        OUT state text, OUT datacenter_id integer, OUT worker_id integer, OUT worker_id_source text,
        OUT layout text, OUT exhausted_at timestamptz,
        OUT frontier timestamptz, OUT lead interval, OUT max_lead interval,
        OUT reserved_until timestamptz, OUT keeper_pid integer, OUT keeper_heartbeat_at timestamptz,
        OUT rate_second double precision, OUT rate_minute double precision,
        OUT sequence_use double precision, OUT clock_synchronized boolean, OUT preloaded boolean,
        OUT fleet_state text, OUT granted_until timestamptz)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_status'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 1
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_status() IS
    'whether this server generates snowflakes, why not, and its settings and state';

REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_status() FROM PUBLIC;

CREATE FUNCTION @extschema@.id_gen_server_info(
        must_generate boolean DEFAULT false,
        OUT layout text, OUT datacenter_id integer, OUT worker_id integer, OUT in_fleet boolean,
        OUT shards integer[], OUT shard_datacenter_ids integer[],
        OUT clock timestamptz, OUT has_shared_memory boolean, OUT library_version text)
    AS 'MODULE_PATHNAME', 'id_gen_server_info'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_gen_server_info(boolean) IS
    'layout, worker ID, shards, clock and library of this server; must_generate: raise what keeps it from generating';
