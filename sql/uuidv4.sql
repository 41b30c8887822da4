-- UUIDs of version 4.

CREATE FUNCTION @extschema@.uuidv4() RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv4'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.uuidv4() IS
    'new UUID version 4: random, in no order';
