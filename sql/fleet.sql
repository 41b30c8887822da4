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
    'list the worker IDs in the registry, with holder and end of the grant';

CREATE FUNCTION @extschema@.id_gen_fleet_create(
        grant_duration interval DEFAULT '30 s', renewal_interval interval DEFAULT '5 s',
        max_clock_skew interval DEFAULT '3 s')
    RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_fleet_create'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_create(interval, interval, interval) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_create(interval, interval, interval) IS
    'create the fleet in its registry, with this server''s layout; if the fleet exists, and this server belongs to a fleet in another registry, leave that fleet and join the existing one';

CREATE FUNCTION @extschema@.id_gen_fleet_release(worker_id integer, datacenter_id integer DEFAULT 0) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'id_gen_fleet_release'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_release(integer, integer) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_release(integer, integer) IS
    'release the worker ID of a lost server; returns the time from which it can be acquired again';

CREATE FUNCTION @extschema@.id_gen_fleet_lower(
        worker_id integer DEFAULT NULL, datacenter_id integer DEFAULT 0, shard integer DEFAULT NULL)
    RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'id_gen_fleet_lower'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_lower(integer, integer, integer) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_lower(integer, integer, integer) IS
    'allow IDs of a worker ID (which is released), or of a shard, from an earlier time again, after a wrong clock';

CREATE FUNCTION @extschema@.id_gen_fleet_report_restore(restored boolean DEFAULT true, registry text DEFAULT NULL)
    RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'id_gen_fleet_report_restore'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_fleet_report_restore(boolean, text) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_fleet_report_restore(boolean, text) IS
    'report that the registry was restored, or that the fleet was moved to this one, or with false that it was not restored, and end this server''s wait; returns the start of new IDs';

CREATE VIEW @extschema@.id_gen_stat_fleet AS
    SELECT *
      FROM @extschema@.id_gen_stat_get('id_gen_stat_fleet') stat (
               state text, granted_until timestamptz, answered_at timestamptz, error text,
               renewals bigint, failures bigint, acquisitions bigint, fencings bigint,
               restorations bigint, last_request double precision, slowest_request double precision,
               registrar_pid integer);
COMMENT ON VIEW @extschema@.id_gen_stat_fleet IS
    'state of this server in its fleet, and counts since start; times in milliseconds';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.state IS 'outside, acquiring, waiting, holding, unsettled, leaving or left';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.granted_until IS 'time up to which this server may generate IDs under its current grant';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.answered_at IS 'time of the last response of the registry';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.error IS 'current error that prevents acquiring a worker ID or renewing the grant';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.renewals IS 'renewals of the grant';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.failures IS 'failed requests to the registry';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.acquisitions IS 'number of times this server acquired a worker ID, including its previous one';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.fencings IS 'number of times the worker ID was acquired by another server or released';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.restorations IS 'number of times this server found the registry restored to an older state';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.last_request IS 'duration of the last request that the registry answered';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.slowest_request IS 'longest duration of a request that the registry answered';
COMMENT ON COLUMN @extschema@.id_gen_stat_fleet.registrar_pid IS 'process ID of the background worker that queries the registry';
