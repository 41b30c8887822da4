-- The commit horizon: up to which ID a reader may read without passing rows that are committed later.

CREATE FUNCTION @extschema@.snowflake_commit_horizon() RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_commit_horizon'
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.snowflake_commit_horizon() IS
    'snowflake below which no more rows will appear; 0 if unknown';

CREATE FUNCTION @extschema@.snowflake_guard_trigger() RETURNS trigger
    AS 'MODULE_PATHNAME', 'snowflake_guard_trigger'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.snowflake_guard_trigger() IS
    'row trigger: reject a new ID below the commit horizon; argument: column name';

CREATE VIEW @extschema@.id_gen_stat_horizon AS
    SELECT b.pid, p.gid, d.datname AS database, b.first_id,
           coalesce(a.xact_start, p.prepared) AS xact_start,
           CASE WHEN b.transaction IS NOT NULL THEN 'prepared' WHEN b.pid IS NULL THEN 'ending' ELSE a.state END AS state
      FROM @extschema@.id_gen_stat_get('id_gen_stat_horizon') b (
               pid integer, transaction xid, datid oid, first_id bigint)
           LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) b.datid
           LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) b.pid
           LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction OPERATOR(pg_catalog.=) b.transaction
     WHERE b.transaction IS NULL OR p.gid IS NOT NULL
     ORDER BY b.first_id NULLS FIRST;
COMMENT ON VIEW @extschema@.id_gen_stat_horizon IS
    'transactions that hold back the commit horizon, oldest ID first';
COMMENT ON COLUMN @extschema@.id_gen_stat_horizon.pid IS 'process ID; NULL for a prepared transaction or an exiting process';
COMMENT ON COLUMN @extschema@.id_gen_stat_horizon.gid IS 'name of the prepared transaction';
COMMENT ON COLUMN @extschema@.id_gen_stat_horizon.database IS 'database whose horizon is held back';
COMMENT ON COLUMN @extschema@.id_gen_stat_horizon.first_id IS 'lowest ID of the transaction; NULL if unknown, and the horizon is then 0';
COMMENT ON COLUMN @extschema@.id_gen_stat_horizon.xact_start IS 'start of the transaction, or time of its PREPARE';
COMMENT ON COLUMN @extschema@.id_gen_stat_horizon.state IS 'state as in pg_stat_activity, or prepared, or ending (process is exiting)';
