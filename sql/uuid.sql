-- UUIDs of any version.
--
-- PostgreSQL 17 and later have functions with these names. These return what PostgreSQL 18's return. They
-- are installed there too, because an index or a view that was made on an older server calls
-- them after pg_upgrade or a restored dump. Without a schema, a name means PostgreSQL's own function.

CREATE FUNCTION @extschema@.uuid_extract_version(uuid) RETURNS smallint
    AS 'MODULE_PATHNAME', 'uuid_extract_version'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_extract_version(uuid) IS
    'version of a UUID; NULL for variants other than that of RFC 9562';

CREATE FUNCTION @extschema@.uuid_extract_timestamp(uuid) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'uuid_extract_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_extract_timestamp(uuid) IS
    'time of a UUID version 1 or 7; NULL for other versions';

-- What PostgreSQL lacks before 20.

CREATE FUNCTION @extschema@.uuid_smaller(uuid, uuid) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuid_smaller'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_smaller(uuid, uuid) IS
    'smaller of two UUIDs';

CREATE FUNCTION @extschema@.uuid_larger(uuid, uuid) RETURNS uuid
    AS 'MODULE_PATHNAME', 'uuid_larger'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.uuid_larger(uuid, uuid) IS
    'larger of two UUIDs';

CREATE AGGREGATE @extschema@.min(uuid) (
    SFUNC = @extschema@.uuid_smaller, STYPE = uuid, COMBINEFUNC = @extschema@.uuid_smaller,
    SORTOP = OPERATOR(pg_catalog.<), PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.min(uuid) IS
    'minimum value of all uuid input values';

CREATE AGGREGATE @extschema@.max(uuid) (
    SFUNC = @extschema@.uuid_larger, STYPE = uuid, COMBINEFUNC = @extschema@.uuid_larger,
    SORTOP = OPERATOR(pg_catalog.>), PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.max(uuid) IS
    'maximum value of all uuid input values';
