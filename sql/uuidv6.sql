-- UUIDs of versions 6 and 1.

CREATE FUNCTION @extschema@.uuidv6() RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv6'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv6() IS
    'new UUID version 6, greater than all earlier ones of this session';

CREATE FUNCTION @extschema@.uuidv1() RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv1'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv1() IS
    'new UUID version 1 with a random node; does not sort by time';

CREATE FUNCTION @extschema@.uuidv6_timestamp(id uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'uuidv6_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv6_timestamp(uuid) IS
    'time of a UUID version 6, to one microsecond; NULL for other versions';

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
