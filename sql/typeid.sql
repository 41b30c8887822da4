-- TypeIDs, which are text: a prefix, an underscore, a UUID.

CREATE FUNCTION @extschema@.typeid(prefix text) RETURNS text
    AS 'MODULE_PATHNAME', 'typeid'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.typeid(text) IS
    'new TypeID, greater than all earlier ones of this session with this prefix';

CREATE FUNCTION @extschema@.typeid_encode(id uuid, prefix text) RETURNS text
    AS 'MODULE_PATHNAME', 'typeid_encode'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.typeid_encode(uuid, text) IS
    'TypeID of a UUID and a prefix';

CREATE FUNCTION @extschema@.typeid_decode(id text, prefix text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'typeid_decode'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.typeid_decode(text, text) IS
    'UUID of a TypeID; an error if it has another prefix';

CREATE FUNCTION @extschema@.typeid_prefix(id text) RETURNS text
    AS 'MODULE_PATHNAME', 'typeid_prefix'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.typeid_prefix(text) IS
    'prefix of a TypeID';

CREATE FUNCTION @extschema@.typeid_timestamp(id text) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'typeid_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.typeid_timestamp(text) IS
    'time of a TypeID, to one millisecond; NULL if its UUID is not of version 7';
