-- What an administrator decides. Nobody but a superuser may call these functions until one grants it.

CREATE FUNCTION @extschema@.id_gen_clock_accept() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_clock_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_clock_accept() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_clock_accept() IS
    'accept the clock as it is after it jumped forward by more than id_gen.max_clock_jump, or came back from that';

CREATE FUNCTION @extschema@.id_gen_layout_accept() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_layout_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_layout_accept() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_layout_accept() IS
    'accept a new id_gen.layout although its snowflakes may repeat or go below those of the old one';

CREATE FUNCTION @extschema@.id_gen_copy_accept(is_only_one boolean) RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_copy_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_copy_accept(boolean) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_copy_accept(boolean) IS
    'confirm that this data directory is a copy and the only one in use: its original is gone, and no other copy generates snowflakes with its worker ID';

CREATE FUNCTION @extschema@.id_gen_reservation_reset(above timestamptz) RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_reservation_reset'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_reservation_reset(timestamptz) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_reservation_reset(timestamptz) IS
    'start again above the clock and above a time, in place of a reservation that is lost, damaged or wrong';

CREATE FUNCTION @extschema@.id_gen_test_mode_end() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_test_mode_end'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_test_mode_end() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_test_mode_end() IS
    'end the tests of a data directory for good: its server, started without id_gen.test_start, makes IDs for real, above those of the tests';
