-- A snowflake and the number of a namespace as one UUID of version 8.

CREATE FUNCTION @extschema@.uuidv8_from_snowflake(id bigint, namespace bigint) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuidv8_from_snowflake'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv8_from_snowflake(bigint, bigint) IS
    'UUID version 8 of a snowflake and a 58-bit namespace; sorts like the snowflake';

CREATE FUNCTION @extschema@.uuidv8_to_snowflake(id uuid) RETURNS bigint
    AS 'MODULE_PATHNAME', 'uuidv8_to_snowflake'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuidv8_to_snowflake(uuid) IS
    'snowflake of a UUID of uuidv8_from_snowflake; NULL for other versions';
