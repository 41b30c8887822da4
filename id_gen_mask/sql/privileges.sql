-- Who may use what base/sql/restrict.sql has taken from everybody.

GRANT EXECUTE ON FUNCTION @extschema@.id_mask_keys() TO pg_monitor;
