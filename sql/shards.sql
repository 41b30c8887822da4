-- Shards: IDs of a number that the caller names, which one server at a time makes.
--
-- Everybody may make IDs, and who may see this server's statistics may see its shards. To decide which server has a shard
-- takes a superuser, until one grants that.

CREATE FUNCTION @extschema@.snowflake_next(shard integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_next_of_shard'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.snowflake_next(integer) IS
    'next snowflake of a shard: unique, and greater than all earlier ones of it';

CREATE FUNCTION @extschema@.id_gen_shard_take(shard integer, above bigint DEFAULT NULL) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'id_gen_shard_take'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_shard_take(integer, bigint) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_shard_take(integer, bigint) IS
    'take a shard for this server, above its last ID (0 if new, omitted in a fleet); returns the time from which it can be used';

CREATE FUNCTION @extschema@.id_gen_shard_release(shard integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'id_gen_shard_release'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_shard_release(integer) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_shard_release(integer) IS
    'release a shard; returns the ID to pass to id_gen_shard_take on the next server';

CREATE FUNCTION @extschema@.id_gen_shard_reset_all() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_shard_reset_all'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_shard_reset_all() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_shard_reset_all() IS
    'forget all shards of this server, if its shard file is unusable';

CREATE FUNCTION @extschema@.id_gen_fleet_shards(
        OUT shard integer, OUT datacenter_id integer, OUT state text, OUT worker_id integer,
        OUT host text, OUT port integer, OUT system_identifier text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_fleet_shards'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_shards() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_shards() IS
    'list the shards in the registry, with their current or last server';

CREATE VIEW @extschema@.id_gen_stat_shards AS
    SELECT *
      FROM @extschema@.id_gen_stat_get('id_gen_stat_shards') stat (
               shard integer, datacenter_id integer, state text, assigned_by text, taken_at timestamptz,
               last_id bigint, issued bigint, per_second double precision);
COMMENT ON VIEW @extschema@.id_gen_stat_shards IS
    'shards of this server';
COMMENT ON COLUMN @extschema@.id_gen_stat_shards.shard IS 'shard number: the worker ID in its snowflakes';
COMMENT ON COLUMN @extschema@.id_gen_stat_shards.datacenter_id IS 'datacenter ID of the server';
COMMENT ON COLUMN @extschema@.id_gen_stat_shards.state IS 'open; waiting after it was taken; closed: not asked for yet, or refused; or no room in layout';
COMMENT ON COLUMN @extschema@.id_gen_stat_shards.assigned_by IS 'declared (by an administrator) or registry';
COMMENT ON COLUMN @extschema@.id_gen_stat_shards.taken_at IS 'time at which this server took the shard';
COMMENT ON COLUMN @extschema@.id_gen_stat_shards.last_id IS 'last ID generated since the server started';
COMMENT ON COLUMN @extschema@.id_gen_stat_shards.issued IS 'IDs generated since the server started';
COMMENT ON COLUMN @extschema@.id_gen_stat_shards.per_second IS 'IDs generated per second, averaged over the last 30 to 60 seconds';
