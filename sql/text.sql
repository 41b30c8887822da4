-- IDs as short text that is safe in URLs, and back.

CREATE FUNCTION @extschema@.id_encode(id bigint, format text) RETURNS text
    AS 'MODULE_PATHNAME', 'id_encode_bigint'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.id_encode(bigint, text) IS
    'encode a bigint as text of fixed width that sorts like the number';

CREATE FUNCTION @extschema@.id_encode(id uuid, format text) RETURNS text
    AS 'MODULE_PATHNAME', 'id_encode_uuid'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.id_encode(uuid, text) IS
    'encode a uuid as text of fixed width that sorts like the uuid';

CREATE FUNCTION @extschema@.id_decode_bigint(id text, format text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'id_decode_bigint'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.id_decode_bigint(text, text) IS
    'bigint of a text; inverse of id_encode(bigint)';

CREATE FUNCTION @extschema@.id_decode_uuid(id text, format text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'id_decode_uuid'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.id_decode_uuid(text, text) IS
    'uuid of a text; inverse of id_encode(uuid)';
