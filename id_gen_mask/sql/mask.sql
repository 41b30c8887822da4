-- Masked IDs: what others see of a bigint or a uuid, under a key.
--
-- They follow the file that id_gen_mask.key_file names, so they are STABLE. A parallel worker would read that file by
-- itself, and in the middle of a rotation could find other keys than its leader has, so they are PARALLEL RESTRICTED.
-- Nobody but superusers may mask and unmask before it is granted: either tells what masks hide.

CREATE FUNCTION @extschema@.id_mask(id bigint, domain text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'id_mask_bigint'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_mask(bigint, text) IS
    'mask a bigint with the current key; the result can be negative';
REVOKE EXECUTE ON FUNCTION @extschema@.id_mask(bigint, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_mask(id bigint, domain text, key_version integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'id_mask_bigint'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_mask(bigint, text, integer) IS
    'mask a bigint with the key of the given version';
REVOKE EXECUTE ON FUNCTION @extschema@.id_mask(bigint, text, integer) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_unmask(masked bigint, domain text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'id_unmask_bigint'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_unmask(bigint, text) IS
    'inverse of id_mask(bigint), with the current key';
REVOKE EXECUTE ON FUNCTION @extschema@.id_unmask(bigint, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_unmask(masked bigint, domain text, key_version integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'id_unmask_bigint'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_unmask(bigint, text, integer) IS
    'inverse of id_mask(bigint), with the key of the given version';
REVOKE EXECUTE ON FUNCTION @extschema@.id_unmask(bigint, text, integer) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_mask(id uuid, domain text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'id_mask_uuid'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_mask(uuid, text) IS
    'mask a uuid with the current key, including its version and variant';
REVOKE EXECUTE ON FUNCTION @extschema@.id_mask(uuid, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_mask(id uuid, domain text, key_version integer) RETURNS uuid
    AS 'MODULE_PATHNAME', 'id_mask_uuid'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_mask(uuid, text, integer) IS
    'mask a uuid with the key of the given version';
REVOKE EXECUTE ON FUNCTION @extschema@.id_mask(uuid, text, integer) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_unmask(masked uuid, domain text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'id_unmask_uuid'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_unmask(uuid, text) IS
    'inverse of id_mask(uuid), with the current key';
REVOKE EXECUTE ON FUNCTION @extschema@.id_unmask(uuid, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_unmask(masked uuid, domain text, key_version integer) RETURNS uuid
    AS 'MODULE_PATHNAME', 'id_unmask_uuid'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_unmask(uuid, text, integer) IS
    'inverse of id_mask(uuid), with the key of the given version';
REVOKE EXECUTE ON FUNCTION @extschema@.id_unmask(uuid, text, integer) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_mask_text(id bigint, domain text) RETURNS text
    AS 'MODULE_PATHNAME', 'id_mask_text_bigint'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_mask_text(bigint, text) IS
    'mask a bigint as URL-safe text: key version, underscore, 11 base58 characters';
REVOKE EXECUTE ON FUNCTION @extschema@.id_mask_text(bigint, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_mask_text(id uuid, domain text) RETURNS text
    AS 'MODULE_PATHNAME', 'id_mask_text_uuid'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_mask_text(uuid, text) IS
    'mask a uuid as URL-safe text: key version, underscore, 22 base58 characters';
REVOKE EXECUTE ON FUNCTION @extschema@.id_mask_text(uuid, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_unmask_text_bigint(masked text, domain text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'id_unmask_text_bigint'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_unmask_text_bigint(text, text) IS
    'inverse of id_mask_text(bigint), with the key whose version is in the text';
REVOKE EXECUTE ON FUNCTION @extschema@.id_unmask_text_bigint(text, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_unmask_text_uuid(masked text, domain text) RETURNS uuid
    AS 'MODULE_PATHNAME', 'id_unmask_text_uuid'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_unmask_text_uuid(text, text) IS
    'inverse of id_mask_text(uuid), with the key whose version is in the text';
REVOKE EXECUTE ON FUNCTION @extschema@.id_unmask_text_uuid(text, text) FROM PUBLIC;

CREATE FUNCTION @extschema@.id_mask_keys(OUT key_version integer, OUT is_current boolean)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_mask_keys'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED ROWS 3;
COMMENT ON FUNCTION @extschema@.id_mask_keys() IS
    'versions of the mask keys of this session, the current one first';
REVOKE EXECUTE ON FUNCTION @extschema@.id_mask_keys() FROM PUBLIC;
