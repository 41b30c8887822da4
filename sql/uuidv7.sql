-- UUIDs of version 7, with the names and signatures of PostgreSQL 18.
--
-- Generating is PARALLEL RESTRICTED: UUIDs made by several workers of one query would not increase
-- in the order of its rows.

CREATE FUNCTION @extschema@.uuidv7() RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv7() IS
    'new UUID version 7, greater than all earlier ones of this session';

CREATE FUNCTION @extschema@.uuidv7(shift interval) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7_shifted'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv7(interval) IS
    'new UUID version 7 with its timestamp shifted by an interval';

CREATE FUNCTION @extschema@.uuidv7_next_batch(count integer) RETURNS SETOF uuid
    AS 'MODULE_PATHNAME', 'uuidv7_next_batch'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv7_next_batch(integer) IS
    'the given number of new UUIDs version 7, strictly increasing, as rows';

CREATE FUNCTION @extschema@.uuidv7_timestamp(id uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'uuidv7_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv7_timestamp(uuid) IS
    'time of a UUID version 7, to one millisecond; NULL for other versions';

CREATE FUNCTION @extschema@.uuidv7_min(ts timestamptz) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7_min'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv7_min(timestamptz) IS
    'smallest UUID version 7 of the millisecond that contains ts';

CREATE FUNCTION @extschema@.uuidv7_max(ts timestamptz) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7_max'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv7_max(timestamptz) IS
    'largest UUID version 7 of the millisecond that contains ts';

CREATE FUNCTION @extschema@.uuidv7_time_decoder(id text) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT @extschema@.uuidv7_timestamp(id::pg_catalog.uuid)';
COMMENT ON FUNCTION @extschema@.uuidv7_time_decoder(text) IS
    'time of a UUID version 7 as text, for p_time_decoder of pg_partman';

CREATE FUNCTION @extschema@.uuidv7_ordered() RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7_ordered'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv7_ordered() IS
    'new UUID version 7, greater than all earlier ones of uuidv7_ordered() on this server';
