-- UUIDs of versions 6 and 1.

CREATE FUNCTION @extschema@.uuidv6() RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv6'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv6() IS
    'new UUID version 6 with a random node, larger than every one this session got before';

CREATE FUNCTION @extschema@.uuidv1() RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv1'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv1() IS
    'new UUID version 1 with a random node; later ones have a later time, or the same and a larger clock sequence and node, but sort anyhow';

CREATE FUNCTION @extschema@.uuidv6_timestamp(id uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'uuidv6_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv6_timestamp(uuid) IS
    'when a UUID version 6 was made, to one microsecond; NULL for other versions';

CREATE FUNCTION @extschema@.uuidv6_min(ts timestamptz) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv6_min'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv6_min(timestamptz) IS
    'smallest UUID version 6 of a microsecond';

CREATE FUNCTION @extschema@.uuidv6_max(ts timestamptz) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv6_max'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv6_max(timestamptz) IS
    'largest UUID version 6 of a microsecond';

CREATE FUNCTION @extschema@.uuidv1_timestamp(id uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'uuidv1_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv1_timestamp(uuid) IS
    'when a UUID version 1 was made, to one microsecond; NULL for other versions';
