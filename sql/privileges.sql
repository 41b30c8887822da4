-- Who may use what base/sql/restrict.sql has taken from everybody.

GRANT EXECUTE ON FUNCTION @extschema@.id_gen_stat_get(text), @extschema@.id_gen_status() TO pg_read_all_stats;
GRANT SELECT ON
    @extschema@.id_gen_stat, @extschema@.id_gen_stat_waits, @extschema@.id_gen_stat_backends
    TO pg_read_all_stats;
GRANT SELECT ON
    @extschema@.id_gen_stat_fleet, @extschema@.id_gen_stat_horizon, @extschema@.id_gen_stat_shards, @extschema@.id_gen_stat_tickets
    TO pg_read_all_stats;
