-- What people use today, each at its best: sequences, the usual PL/pgSQL snowflake and the usual
-- pure SQL UUIDv7.
CREATE EXTENSION id_gen;
CREATE EXTENSION "uuid-ossp";
CREATE EXTENSION pgstattuple;

CREATE SEQUENCE plain;
CREATE SEQUENCE cached CACHE 1000;

-- As in "Sharding & IDs at Instagram": 41 bits of milliseconds, 13 of shard, 10 of a sequence.
CREATE SEQUENCE shard_sequence;
CREATE FUNCTION plpgsql_snowflake() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    epoch bigint := 1314220021721;
    milliseconds bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
    shard int := 5;
BEGIN
    RETURN (milliseconds - epoch) << 23 | shard << 10 | nextval('shard_sequence') % 1024;
END $$;

-- A random UUID with its first 48 bits and its version replaced.
CREATE FUNCTION sql_uuidv7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
SELECT encode(
    set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
            FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
$$;
