-- What an operator can see. The functions themselves are in src/stat.rs, src/status.rs and
-- src/check.rs.
--
-- As for PostgreSQL's own statistics, members of pg_read_all_stats (pg_monitor is one) may read all
-- of it; only a superuser resets it, until one grants that.

CREATE FUNCTION @extschema@.id_gen_stat_get(
        OUT ids bigint, OUT claims bigint, OUT waits bigint, OUT wait_time double precision,
        OUT lead double precision, OUT largest_lead double precision,
        OUT peak_sequence_use double precision,
        OUT steps_back bigint, OUT largest_step_back double precision, OUT steps_forward bigint,
        OUT refused bigint[],
        OUT reservation_writes bigint, OUT reservation_failures bigint,
        OUT slowest_reservation_write double precision, OUT stats_reset timestamptz)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_stat_get_wrapper'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 1;
COMMENT ON FUNCTION @extschema@.id_gen_stat_get() IS
    'what view id_gen_stat shows, refusals as an array in the order of its columns';

CREATE VIEW @extschema@.id_gen_stat AS
    SELECT ids, claims, waits, wait_time, lead, largest_lead, peak_sequence_use,
           steps_back, largest_step_back, steps_forward,
           refused[1] AS refused_worker_id, refused[2] AS refused_layout, refused[3] AS refused_lead,
           refused[4] AS refused_jump, refused[5] AS refused_epoch, refused[6] AS refused_exhausted,
           refused[7] AS refused_reservation, refused[8] AS refused_write,
           reservation_writes, reservation_failures, slowest_reservation_write, stats_reset
      FROM @extschema@.id_gen_stat_get();
COMMENT ON VIEW @extschema@.id_gen_stat IS
    'statistics of snowflakes on this server since they were last reset; times in milliseconds';

CREATE FUNCTION @extschema@.id_gen_stat_get_waits(OUT at_most double precision, OUT waits bigint)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_stat_get_waits_wrapper'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 32;
COMMENT ON FUNCTION @extschema@.id_gen_stat_get_waits() IS
    'what view id_gen_stat_waits shows';

CREATE VIEW @extschema@.id_gen_stat_waits AS
    SELECT at_most, waits FROM @extschema@.id_gen_stat_get_waits();
COMMENT ON VIEW @extschema@.id_gen_stat_waits IS
    'how many claims waited longer than the row before says and at most so many milliseconds';

CREATE FUNCTION @extschema@.id_gen_wait_percentile(fraction double precision) RETURNS double precision
    AS 'MODULE_PATHNAME', 'id_gen_wait_percentile_wrapper'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_gen_wait_percentile(double precision) IS
    'milliseconds that this fraction of the claims that waited stayed within, good to a factor of two';

CREATE FUNCTION @extschema@.id_gen_stat_get_backends(
        OUT pid integer, OUT ids bigint, OUT claims bigint, OUT waits bigint,
        OUT wait_time double precision, OUT block_size bigint, OUT block_left bigint)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_stat_get_backends_wrapper'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION @extschema@.id_gen_stat_get_backends() IS
    'what view id_gen_stat_backends shows';

CREATE VIEW @extschema@.id_gen_stat_backends AS
    SELECT pid, ids, claims, waits, wait_time, block_size, block_left
      FROM @extschema@.id_gen_stat_get_backends();
COMMENT ON VIEW @extschema@.id_gen_stat_backends IS
    'statistics of each session that has generated snowflakes, since it began';

CREATE FUNCTION @extschema@.id_gen_stat_reset() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_stat_reset'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_gen_stat_reset() IS
    'begin to count anew in id_gen_stat and id_gen_stat_waits';

CREATE FUNCTION @extschema@.id_gen_status(
        OUT state text, OUT worker_id integer, OUT datacenter_id integer, OUT worker_id_source text,
        OUT layout text, OUT layout_ends timestamptz,
        OUT frontier timestamptz, OUT lead interval, OUT max_lead interval,
        OUT reserved_until timestamptz, OUT keeper_pid integer, OUT keeper_beat timestamptz,
        OUT rate_second double precision, OUT rate_minute double precision,
        OUT sequence_use double precision, OUT clock_synchronized boolean, OUT preloaded boolean)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_status_wrapper'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 1
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_status() IS
    'whether this server generates snowflakes or why not, and what with';

-- Everybody may call it, and is told what is not shown.
CREATE FUNCTION @extschema@.id_gen_check(
        OUT name text, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_check_wrapper'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 16
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_check() IS
    'what may be wrong with snowflakes on this server, and what to do: ok, warning or error for each check';

CREATE FUNCTION @extschema@.id_gen_check(
        relation regclass, column_name text,
        OUT name text, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_check_stored_wrapper'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_check(regclass, text) IS
    'whether the newest ID stored in a column lies above what this server has handed out';

REVOKE EXECUTE ON FUNCTION
    @extschema@.id_gen_stat_get(), @extschema@.id_gen_stat_get_waits(),
    @extschema@.id_gen_stat_get_backends(), @extschema@.id_gen_wait_percentile(double precision),
    @extschema@.id_gen_stat_reset(), @extschema@.id_gen_status()
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    @extschema@.id_gen_stat_get(), @extschema@.id_gen_stat_get_waits(),
    @extschema@.id_gen_stat_get_backends(), @extschema@.id_gen_wait_percentile(double precision),
    @extschema@.id_gen_status()
    TO pg_read_all_stats;
GRANT SELECT ON
    @extschema@.id_gen_stat, @extschema@.id_gen_stat_waits, @extschema@.id_gen_stat_backends
    TO pg_read_all_stats;
