-- Snowflakes: generating, then decoding.
--
-- Generating is PARALLEL RESTRICTED: each process draws from a block of its own, so IDs made by
-- several workers of one query would not increase in the order of its rows.

CREATE FUNCTION @extschema@.snowflake_next() RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_next'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.snowflake_next() IS
    'next snowflake: unique, and greater than all earlier ones of this session';

CREATE FUNCTION @extschema@.snowflake_next_batch(count integer) RETURNS SETOF bigint
    AS 'MODULE_PATHNAME', 'snowflake_next_batch'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.snowflake_next_batch(integer) IS
    'the given number of new snowflakes, strictly increasing, as rows';

CREATE FUNCTION @extschema@.snowflake_next_array(count integer) RETURNS bigint[]
    AS 'MODULE_PATHNAME', 'snowflake_next_array'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.snowflake_next_array(integer) IS
    'the given number of new snowflakes, strictly increasing, as an array';

CREATE FUNCTION @extschema@.snowflake_parse(
        id bigint,
        OUT created_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer)
    AS 'MODULE_PATHNAME', 'snowflake_parse'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_parse(bigint) IS
    'fields of a snowflake, in this server''s layout';

CREATE FUNCTION @extschema@.snowflake_parse(
        id bigint, layout text,
        OUT created_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer)
    AS 'MODULE_PATHNAME', 'snowflake_parse'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_parse(bigint, text) IS
    'fields of a snowflake, in the given layout';

CREATE FUNCTION @extschema@.snowflake_timestamp(id bigint) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'snowflake_timestamp'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_timestamp(bigint) IS
    'creation time of a snowflake, to one tick, in this server''s layout';

CREATE FUNCTION @extschema@.snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    AS 'MODULE_PATHNAME', 'snowflake_timestamp'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_timestamp(bigint, text) IS
    'creation time of a snowflake, to one tick, in the given layout';

CREATE FUNCTION @extschema@.snowflake_worker_id(id bigint) RETURNS integer
    AS 'MODULE_PATHNAME', 'snowflake_worker_id'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_worker_id(bigint) IS
    'worker ID in a snowflake, in this server''s layout';

CREATE FUNCTION @extschema@.snowflake_worker_id(id bigint, layout text) RETURNS integer
    AS 'MODULE_PATHNAME', 'snowflake_worker_id'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_worker_id(bigint, text) IS
    'worker ID in a snowflake, in the given layout';

CREATE FUNCTION @extschema@.snowflake_datacenter_id(id bigint) RETURNS integer
    AS 'MODULE_PATHNAME', 'snowflake_datacenter_id'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_datacenter_id(bigint) IS
    'datacenter ID in a snowflake, in this server''s layout; 0 if the layout has none';

CREATE FUNCTION @extschema@.snowflake_datacenter_id(id bigint, layout text) RETURNS integer
    AS 'MODULE_PATHNAME', 'snowflake_datacenter_id'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_datacenter_id(bigint, text) IS
    'datacenter ID in a snowflake, in the given layout; 0 if the layout has none';

CREATE FUNCTION @extschema@.snowflake_min(ts timestamptz) RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_min'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_min(timestamptz) IS
    'smallest snowflake of the tick that contains ts, in this server''s layout';

CREATE FUNCTION @extschema@.snowflake_min(ts timestamptz, layout text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_min'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_min(timestamptz, text) IS
    'smallest snowflake of the tick that contains ts, in the given layout';

CREATE FUNCTION @extschema@.snowflake_max(ts timestamptz) RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_max'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_max(timestamptz) IS
    'largest snowflake of the tick that contains ts, in this server''s layout';

CREATE FUNCTION @extschema@.snowflake_max(ts timestamptz, layout text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_max'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_max(timestamptz, text) IS
    'largest snowflake of the tick that contains ts, in the given layout';

CREATE FUNCTION @extschema@.snowflake_make(
        ts timestamptz, datacenter_id integer, worker_id integer, sequence integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_make'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_make(timestamptz, integer, integer, integer) IS
    'snowflake with the given fields, in this server''s layout (tests, backfills)';

CREATE FUNCTION @extschema@.snowflake_make(
        ts timestamptz, datacenter_id integer, worker_id integer, sequence integer, layout text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'snowflake_make'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_make(timestamptz, integer, integer, integer, text) IS
    'snowflake with the given fields, in the given layout (tests, backfills)';

CREATE FUNCTION @extschema@.snowflake_inspect(id bigint) RETURNS text
    AS 'MODULE_PATHNAME', 'snowflake_inspect'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_inspect(bigint) IS
    'diagram of a snowflake''s bits, in this server''s layout';

CREATE FUNCTION @extschema@.snowflake_inspect(id bigint, layout text) RETURNS text
    AS 'MODULE_PATHNAME', 'snowflake_inspect'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_inspect(bigint, text) IS
    'diagram of a snowflake''s bits, in the given layout';

CREATE FUNCTION @extschema@.snowflake_layouts()
    RETURNS TABLE (
        name text, about text, in_use boolean, layout text, epoch timestamptz, tick interval,
        time_bits integer, datacenter_bits integer, worker_bits integer, sequence_bits integer,
        nodes bigint, ids_per_second bigint, exhausted_at timestamptz)
    AS 'MODULE_PATHNAME', 'snowflake_layouts'
    LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.snowflake_layouts() IS
    'named layouts and this server''s own: fields, nodes, rate and end of time';

-- pg_partman calls functions of one argument for columns of text. Bounds are text that sorts as the numbers do, whatever
-- the collation: 19 digits, as many as the largest bigint has.

CREATE FUNCTION @extschema@.snowflake_time_encoder(ts timestamptz) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    AS 'SELECT pg_catalog.lpad(@extschema@.snowflake_min(ts)::pg_catalog.text, 19, ''0'')';
COMMENT ON FUNCTION @extschema@.snowflake_time_encoder(timestamptz) IS
    'smallest snowflake of a tick as 19 digits, for p_time_encoder of pg_partman';

CREATE FUNCTION @extschema@.snowflake_time_decoder(id text) RETURNS timestamptz
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    AS 'SELECT @extschema@.snowflake_timestamp(id::pg_catalog.int8)';
COMMENT ON FUNCTION @extschema@.snowflake_time_decoder(text) IS
    'creation time of a snowflake as text, for p_time_decoder of pg_partman';
