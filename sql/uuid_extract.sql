-- What PostgreSQL 17 and 18 have of their own, with PostgreSQL 18's answers. It is installed there
-- too: an index or a view of an older server that names our function finds it after pg_upgrade or a
-- restored dump. Who names no schema gets the server's own.

CREATE FUNCTION @extschema@.uuid_extract_version(uuid) RETURNS smallint
    AS 'MODULE_PATHNAME', 'uuid_extract_version'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_extract_version(uuid) IS
    'version of a UUID; NULL for variants other than RFC 9562''s';

CREATE FUNCTION @extschema@.uuid_extract_timestamp(uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'uuid_extract_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_extract_timestamp(uuid) IS
    'time of a UUID version 1 or 7; NULL for other versions';
