-- The fleet: servers that get their numbers from a registry.
--
-- Who may see this server's statistics may see its part in the fleet. To ask the registry, and to decide anything about
-- the fleet, takes a superuser, until one grants that.

CREATE FUNCTION @extschema@.id_gen_fleet_members(
        OUT datacenter_id integer, OUT worker_id integer, OUT state text,
        OUT host text, OUT port integer, OUT granted_until timestamptz,
        OUT system_identifier text, OUT timeline integer, OUT this_server boolean)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_fleet_members'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_members() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_members() IS
    'all numbers that servers of the fleet ever held, who holds them and until when, as the registry knows them';

CREATE FUNCTION @extschema@.id_gen_fleet_create(
        waiting text DEFAULT 'normal', grant_duration interval DEFAULT '30 s',
        renewal_interval interval DEFAULT '5 s', max_clock_skew interval DEFAULT '3 s')
    RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_fleet_create'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_create(text, interval, interval, interval) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_create(text, interval, interval, interval) IS
    'make the fleet that id_gen.fleet_name names, with this server''s layout and id_gen.max_lead, in the registry that id_gen.registry names';

CREATE FUNCTION @extschema@.id_gen_fleet_release(worker_id integer, datacenter_id integer DEFAULT 0) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'id_gen_fleet_release'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_release(integer, integer) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_release(integer, integer) IS
    'release the number of a server that is gone for good; returns from when on another may take it';

CREATE FUNCTION @extschema@.id_gen_fleet_lower(worker_id integer, datacenter_id integer DEFAULT 0) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'id_gen_fleet_lower'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_lower(integer, integer) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_lower(integer, integer) IS
    'release a number whose bound a wrong clock has set too far ahead, and lower the bound; returns the bound';

CREATE FUNCTION @extschema@.id_gen_fleet_lower_shard(shard integer, datacenter_id integer DEFAULT 0) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'id_gen_fleet_lower_shard'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_lower_shard(integer, integer) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_lower_shard(integer, integer) IS
    'lower where IDs of a shard begin, which a wrong clock has set too far ahead; returns that time';

CREATE FUNCTION @extschema@.id_gen_fleet_report_restore() RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'id_gen_fleet_report_restore'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_report_restore() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_report_restore() IS
    'tell the fleet that its registry was restored from a backup; returns where the IDs of numbers begin that are acquired from now on';

CREATE FUNCTION id_gen_internal.id_gen_stat_get_fleet(
        OUT state text, OUT granted_until timestamptz, OUT answered_at timestamptz, OUT error text,
        OUT renewals bigint, OUT failures bigint, OUT acquisitions bigint, OUT fencings bigint,
        OUT restorations bigint, OUT last_request double precision, OUT slowest_request double precision,
        OUT registrar_pid integer)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_stat_get_fleet'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 1;
COMMENT ON FUNCTION id_gen_internal.id_gen_stat_get_fleet() IS
    'what view id_gen_stat_fleet shows';

CREATE VIEW @extschema@.id_gen_stat_fleet AS
    SELECT state, granted_until, answered_at, error, renewals, failures, acquisitions, fencings, restorations,
           last_request, slowest_request, registrar_pid
      FROM id_gen_internal.id_gen_stat_get_fleet();
COMMENT ON VIEW @extschema@.id_gen_stat_fleet IS
    'this server''s part in its fleet since it started; no row without a registry; times in milliseconds';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.state IS 'outside, acquiring, waiting, holding, unsettled, leaving or left';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.granted_until IS 'before which time its IDs have to be until its grant is renewed';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.answered_at IS 'when the registry answered last';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.error IS 'what keeps this server from a number, or from renewing its grant';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.renewals IS 'renewals of the grant';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.failures IS 'requests to the registry that were of no use';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.acquisitions IS 'times that this server got a number, or its own again';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.fencings IS 'times that this server''s number was taken by another server, or released';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.restorations IS 'times that this server found the registry to have gone back in time';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.last_request IS 'how long the registry took for its last answer';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.slowest_request IS 'how long the registry took for an answer at most';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.registrar_pid IS 'process ID of the registrar, the background worker that asks the registry';

REVOKE EXECUTE ON FUNCTION id_gen_internal.id_gen_stat_get_fleet() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION id_gen_internal.id_gen_stat_get_fleet() TO pg_read_all_stats;
REVOKE SELECT ON @extschema@.id_gen_stat_fleet FROM PUBLIC;
GRANT SELECT ON @extschema@.id_gen_stat_fleet TO pg_read_all_stats;
