-- Sqids: short text for lists of small numbers, with the defaults of https://sqids.org. They are no secret.

CREATE FUNCTION @extschema@.sqids_encode(
    numbers bigint[],
    min_length integer DEFAULT 0,
    alphabet text DEFAULT 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'
) RETURNS text
    AS 'MODULE_PATHNAME', 'sqids_encode'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION @extschema@.sqids_encode(bigint[], integer, text) IS
    'sqid of up to 100 non-negative numbers; short, but not secret';

CREATE FUNCTION @extschema@.sqids_decode(
    id text,
    min_length integer DEFAULT 0,
    alphabet text DEFAULT 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'
) RETURNS bigint[]
    AS 'MODULE_PATHNAME', 'sqids_decode'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION @extschema@.sqids_decode(text, integer, text) IS
    'numbers of a sqid; inverse of sqids_encode';
