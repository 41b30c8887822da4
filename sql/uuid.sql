-- UUIDs, with the names and signatures of PostgreSQL 18.
--
-- Generating is PARALLEL RESTRICTED: UUIDs made by several workers of one query would not increase
-- in the order of its rows.

CREATE FUNCTION @extschema@.uuidv7() RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv7() IS
    'new UUID version 7, larger than every one this session got before';

CREATE FUNCTION @extschema@.uuidv7(shift interval) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7_shifted'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv7(interval) IS
    'new UUID version 7 with its timestamp shifted by an interval';

CREATE FUNCTION @extschema@.uuidv7_timestamp(uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'uuidv7_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv7_timestamp(uuid) IS
    'when a UUID version 7 was made, to one millisecond; NULL for other versions';

CREATE FUNCTION @extschema@.uuidv7_min(ts timestamptz) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7_min'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv7_min(timestamptz) IS
    'smallest UUID version 7 of the millisecond that holds an instant';

CREATE FUNCTION @extschema@.uuidv7_max(ts timestamptz) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv7_max'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv7_max(timestamptz) IS
    'largest UUID version 7 of the millisecond that holds an instant';

CREATE FUNCTION @extschema@.uuidv7_time_decoder(uuid text) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT @extschema@.uuidv7_timestamp(uuid::pg_catalog.uuid)';
COMMENT ON FUNCTION @extschema@.uuidv7_time_decoder(text) IS
    'as uuidv7_timestamp, of a UUID as text: what pg_partman takes for p_time_decoder, beside uuidv7_min for p_time_encoder';

-- PostgreSQL 17 and later have functions with these names. These return what PostgreSQL 18's return. They
-- are installed there too, because an index or a view that was made on an older server calls
-- them after pg_upgrade or a restored dump. Without a schema, a name means PostgreSQL's own function.

CREATE FUNCTION @extschema@.uuid_extract_version(uuid) RETURNS smallint
    AS 'MODULE_PATHNAME', 'uuid_extract_version'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_extract_version(uuid) IS
    'version of a UUID; NULL for variants other than RFC 9562''s';

CREATE FUNCTION @extschema@.uuid_extract_timestamp(uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'uuid_extract_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_extract_timestamp(uuid) IS
    'time of a UUID version 1 or 7; NULL for other versions';
