-- ULIDs, as uuid and as text.

CREATE FUNCTION @extschema@.ulid() RETURNS uuid
    AS 'MODULE_PATHNAME', 'ulid'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.ulid() IS
    'new ULID, greater than all earlier ones of this session';

CREATE FUNCTION @extschema@.ulid_encode(id uuid) RETURNS text
    AS 'MODULE_PATHNAME', 'ulid_encode'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.ulid_encode(uuid) IS
    'ULID as text: 26 characters of Crockford''s base 32';

CREATE FUNCTION @extschema@.ulid_decode(id text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'ulid_decode'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.ulid_decode(text) IS
    'ULID of a text; inverse of ulid_encode, only upper case';

CREATE FUNCTION @extschema@.ulid_timestamp(id uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'ulid_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.ulid_timestamp(uuid) IS
    'creation time of a ULID, to one millisecond';

CREATE FUNCTION @extschema@.ulid_min(ts timestamptz) RETURNS uuid
    AS 'MODULE_PATHNAME', 'ulid_min'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.ulid_min(timestamptz) IS
    'smallest ULID of the millisecond that contains ts';

CREATE FUNCTION @extschema@.ulid_max(ts timestamptz) RETURNS uuid
    AS 'MODULE_PATHNAME', 'ulid_max'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.ulid_max(timestamptz) IS
    'largest ULID of the millisecond that contains ts';
