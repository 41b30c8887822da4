-- UUIDs of a namespace and a name.

CREATE FUNCTION @extschema@.uuidv5(namespace uuid, name text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv5'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv5(uuid, text) IS
    'UUID version 5 of a namespace and a name (SHA-1): same input, same result';

CREATE FUNCTION @extschema@.uuidv3(namespace uuid, name text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv3'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv3(uuid, text) IS
    'UUID version 3 of a namespace and a name (MD5): same input, same result';

CREATE FUNCTION @extschema@.uuidv8(namespace uuid, name text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv8'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv8(uuid, text) IS
    'UUID version 8 of a namespace and a name (SHA-256): same input, same result';

-- Not uuid_ns_dns() and so on: uuid-ossp has functions of these names, and both extensions may be in one schema.

CREATE FUNCTION @extschema@.uuid_namespace(namespace text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuid_namespace'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_namespace(text) IS
    'namespace of RFC 9562 for uuidv5, uuidv3 and uuidv8: dns, url, oid or x500';
