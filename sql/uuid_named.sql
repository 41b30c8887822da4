-- UUIDs of a namespace and a name. The RFC's namespaces (RFC 9562, section 6.6) are uuid-ossp's uuid_ns_dns() and so on.

CREATE FUNCTION @extschema@.uuidv5(namespace uuid, name text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv5'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv5(uuid, text) IS
    'UUID version 5 of a namespace and a name, by SHA-1: the same for the same arguments, as bytes';

CREATE FUNCTION @extschema@.uuidv3(namespace uuid, name text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv3'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv3(uuid, text) IS
    'UUID version 3 of a namespace and a name, by MD5: the same for the same arguments, as bytes';

CREATE FUNCTION @extschema@.uuidv8(namespace uuid, name text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv8'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv8(uuid, text) IS
    'UUID version 8 of a namespace and a name, by SHA-256: the same for the same arguments, as bytes';
