-- What an administrator decides. Nobody but a superuser may call these functions until one grants it.

CREATE FUNCTION @extschema@.id_gen_clock_accept() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_clock_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_clock_accept() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_clock_accept() IS
    'accept the current time after the clock jumped forward by more than id_gen.max_clock_jump, or returned from such a jump';

CREATE FUNCTION @extschema@.id_gen_layout_accept() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_layout_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_layout_accept() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_layout_accept() IS
    'accept a new id_gen.layout although its snowflakes may duplicate those of the old layout, or be lower';

CREATE FUNCTION @extschema@.id_gen_copy_accept(is_only_one boolean) RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_copy_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_copy_accept(boolean) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_copy_accept(boolean) IS
    'confirm that this data directory is the only one in use: its original is gone, and no other copy generates snowflakes with its worker ID';

CREATE FUNCTION @extschema@.id_gen_reservation_reset(above timestamptz) RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_reservation_reset'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_reservation_reset(timestamptz) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_reservation_reset(timestamptz) IS
    'replace a lost, damaged or wrong reservation; snowflakes start above the clock and above the given time';

CREATE FUNCTION @extschema@.id_gen_test_mode_end() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_test_mode_end'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_test_mode_end() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_test_mode_end() IS
    'end test mode permanently: when restarted without id_gen.test_start, the server generates IDs above those of the tests';
