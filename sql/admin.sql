-- What an administrator decides. Nobody but a superuser may call these functions until one grants it.

CREATE FUNCTION @extschema@.id_gen_accept_clock() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_accept_clock'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_accept_clock() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_accept_clock() IS
    'accept the clock as it is after it jumped forward by more than id_gen.max_jump, or came back from that';

CREATE FUNCTION @extschema@.id_gen_accept_layout() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_accept_layout'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_accept_layout() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_accept_layout() IS
    'accept a new id_gen.layout although its snowflakes may repeat or go below those of the old one';

CREATE FUNCTION @extschema@.id_gen_accept_copy(is_only_one boolean) RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_accept_copy'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_accept_copy(boolean) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_accept_copy(boolean) IS
    'confirm that this data directory is a copy and the only one in use: its original is gone, and no other copy generates snowflakes with its worker ID';

CREATE FUNCTION @extschema@.id_gen_reset_reservation(above timestamptz) RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_reset_reservation'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_reset_reservation(timestamptz) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_reset_reservation(timestamptz) IS
    'start again above the clock and above a time, in place of a reservation that is lost, damaged or wrong';

CREATE FUNCTION @extschema@.id_gen_end_tests() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_end_tests'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_end_tests() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_end_tests() IS
    'end the tests of a data directory for good: its server, started without id_gen.test_start, makes IDs for real, above those of the tests';
