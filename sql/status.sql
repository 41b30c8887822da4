-- Whether a server generates, and what with: for members of pg_read_all_stats. What every role can learn from settings and
-- from new IDs is for every role: the version, and what id_gen_tools works with.

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

CREATE FUNCTION @extschema@.id_gen_version() RETURNS text
    AS 'MODULE_PATHNAME', 'id_gen_version'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.id_gen_version() IS
    'version of the library in use; the version of the SQL objects is in pg_extension';

CREATE FUNCTION @extschema@.id_gen_ready() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_ready'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_gen_ready() IS
    'raise the error that snowflake_next() would raise until somebody solves its cause';

CREATE FUNCTION @extschema@.id_gen_server_info(
        OUT layout text, OUT datacenter_id integer, OUT worker_id integer, OUT in_fleet boolean,
        OUT shards integer[], OUT shard_datacenter_ids integer[],
        OUT clock timestamptz, OUT has_shared_memory boolean)
    AS 'MODULE_PATHNAME', 'id_gen_server_info'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_gen_server_info() IS
    'layout, worker ID, shards and clock of this server, for every role';
