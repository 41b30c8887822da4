-- Statistics.
--
-- As for PostgreSQL's own statistics, members of pg_read_all_stats (pg_monitor is one) may read all
-- of it; only a superuser resets it, until one grants that.

CREATE VIEW @extschema@.id_gen_stat AS
    SELECT ids, claims, waits, wait_time, lead, largest_lead, peak_sequence_use,
           clock_steps_back, largest_clock_step_back, clock_steps_forward,
           refused[1] AS refused_worker_id, refused[2] AS refused_layout, refused[3] AS refused_lead,
           refused[4] AS refused_jump, refused[5] AS refused_epoch, refused[6] AS refused_exhausted,
           refused[7] AS refused_reservation, refused[8] AS refused_write,
           reservation_writes, reservation_failures, slowest_reservation_write, stats_reset
      FROM @extschema@.id_gen_stat_get('id_gen_stat') stat (
               ids bigint, claims bigint, waits bigint, wait_time double precision,
               lead double precision, largest_lead double precision, peak_sequence_use double precision,
               clock_steps_back bigint, largest_clock_step_back double precision, clock_steps_forward bigint,
               refused bigint[], reservation_writes bigint, reservation_failures bigint,
               slowest_reservation_write double precision, stats_reset timestamptz);
COMMENT ON VIEW @extschema@.id_gen_stat IS
    'statistics of snowflakes on this server since the last reset; times in ms';
COMMENT ON COLUMN @extschema@.id_gen_stat.ids IS 'IDs returned to callers';
COMMENT ON COLUMN @extschema@.id_gen_stat.claims IS 'number of times a session allocated a block, a single ID or part of a batch';
COMMENT ON COLUMN @extschema@.id_gen_stat.waits IS 'claims that waited for the clock or the disk';
COMMENT ON COLUMN @extschema@.id_gen_stat.wait_time IS 'total time of these waits';
COMMENT ON COLUMN @extschema@.id_gen_stat.lead IS 'time by which the next ID is ahead of the clock';
COMMENT ON COLUMN @extschema@.id_gen_stat.largest_lead IS 'largest time by which an ID was ahead of the clock';
COMMENT ON COLUMN @extschema@.id_gen_stat.peak_sequence_use IS 'largest share of one tick''s IDs that was allocated';
COMMENT ON COLUMN @extschema@.id_gen_stat.clock_steps_back IS 'number of times the clock was set back';
COMMENT ON COLUMN @extschema@.id_gen_stat.largest_clock_step_back IS 'largest step by which the clock was set back';
COMMENT ON COLUMN @extschema@.id_gen_stat.clock_steps_forward IS 'number of times the clock was set forward';
COMMENT ON COLUMN @extschema@.id_gen_stat.refused_worker_id IS 'calls that failed because of the worker ID or datacenter ID';
COMMENT ON COLUMN @extschema@.id_gen_stat.refused_layout IS 'calls that failed because of the layout';
COMMENT ON COLUMN @extschema@.id_gen_stat.refused_lead IS 'calls that failed because of the lead over the clock';
COMMENT ON COLUMN @extschema@.id_gen_stat.refused_jump IS 'calls that failed because the clock jumped forward';
COMMENT ON COLUMN @extschema@.id_gen_stat.refused_epoch IS 'calls that failed because the clock is before the layout''s epoch';
COMMENT ON COLUMN @extschema@.id_gen_stat.refused_exhausted IS 'calls that failed because the layout is exhausted';
COMMENT ON COLUMN @extschema@.id_gen_stat.refused_reservation IS 'calls that failed because the reservation cannot be used';
COMMENT ON COLUMN @extschema@.id_gen_stat.refused_write IS 'calls that failed because the reservation could not be written';
COMMENT ON COLUMN @extschema@.id_gen_stat.reservation_writes IS 'writes of the reservation';
COMMENT ON COLUMN @extschema@.id_gen_stat.reservation_failures IS 'failed writes of the reservation';
COMMENT ON COLUMN @extschema@.id_gen_stat.slowest_reservation_write IS 'longest write of the reservation';
COMMENT ON COLUMN @extschema@.id_gen_stat.stats_reset IS 'time at which these statistics were last reset';

CREATE VIEW @extschema@.id_gen_stat_waits AS
    SELECT * FROM @extschema@.id_gen_stat_get('id_gen_stat_waits') stat (upper_bound double precision, waits bigint);
COMMENT ON VIEW @extschema@.id_gen_stat_waits IS
    'histogram of waits; upper bounds in milliseconds';
COMMENT ON COLUMN @extschema@.id_gen_stat_waits.upper_bound IS 'upper bound of this bucket in milliseconds, inclusive';
COMMENT ON COLUMN @extschema@.id_gen_stat_waits.waits IS 'claims that waited up to upper_bound, but longer than in the previous row';

CREATE VIEW @extschema@.id_gen_stat_backends AS
    SELECT *
      FROM @extschema@.id_gen_stat_get('id_gen_stat_backends') stat (
               pid integer, ids bigint, claims bigint, waits bigint,
               wait_time double precision, block_size bigint, block_left bigint);
COMMENT ON VIEW @extschema@.id_gen_stat_backends IS
    'statistics of each session that has generated snowflakes; times in milliseconds';
COMMENT ON COLUMN @extschema@.id_gen_stat_backends.pid IS 'process ID of the session';
COMMENT ON COLUMN @extschema@.id_gen_stat_backends.ids IS 'IDs returned to the session';
COMMENT ON COLUMN @extschema@.id_gen_stat_backends.claims IS 'number of times the session allocated a block, a single ID or part of a batch';
COMMENT ON COLUMN @extschema@.id_gen_stat_backends.waits IS 'claims that waited for the clock or the disk';
COMMENT ON COLUMN @extschema@.id_gen_stat_backends.wait_time IS 'total time of these waits';
COMMENT ON COLUMN @extschema@.id_gen_stat_backends.block_size IS 'size of the last block that the session requested';
COMMENT ON COLUMN @extschema@.id_gen_stat_backends.block_left IS 'unused IDs of that block';

CREATE FUNCTION @extschema@.id_gen_stat_reset() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_stat_reset'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_gen_stat_reset() IS
    'reset the statistics of id_gen_stat and id_gen_stat_waits';

REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_stat_reset() FROM PUBLIC;
