-- What an administrator decides. Nobody but a superuser may call these functions until one grants it.

CREATE FUNCTION @extschema@.id_gen_clock_accept() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_clock_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_clock_accept() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_clock_accept() IS
    'accept the current time after a clock jump beyond id_gen.max_clock_jump; uuidv7_ordered() continues from it, if it was ahead of the clock';

CREATE FUNCTION @extschema@.id_gen_layout_accept() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_layout_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_layout_accept() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_layout_accept() IS
    'accept a new id_gen.layout although its snowflakes may duplicate old ones';

CREATE FUNCTION @extschema@.id_gen_copy_accept(is_only_one boolean) RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_copy_accept'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_copy_accept(boolean) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_copy_accept(boolean) IS
    'confirm that no other copy of this data directory generates snowflakes';

CREATE FUNCTION @extschema@.id_gen_reservation_reset(above timestamptz) RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_reservation_reset'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_reservation_reset(timestamptz) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_reservation_reset(timestamptz) IS
    'discard the reservation: snowflakes start above the clock and the given time';

CREATE FUNCTION @extschema@.id_gen_test_mode_end() RETURNS void
    AS 'MODULE_PATHNAME', 'id_gen_test_mode_end'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.id_gen_test_mode_end() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.id_gen_test_mode_end() IS
    'end test mode permanently, so that new IDs are above those of the tests';
