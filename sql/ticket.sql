-- Tickets: numbers of PostgreSQL's sequences, out of ranges that this server takes in advance.
--
-- As nextval(), it is PARALLEL UNSAFE, and everybody may call it who may use the sequence.

CREATE FUNCTION @extschema@.ticket_next(sequence regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'ticket_next'
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.ticket_next(regclass) IS
    'next number of a sequence, from a range that this server has prefetched';

CREATE FUNCTION @extschema@.ticket_share(sequence regclass, above bigint DEFAULT NULL) RETURNS bigint
    AS 'MODULE_PATHNAME', 'ticket_share'
    LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.ticket_share(regclass, bigint) IS
    'share a sequence among the servers of the fleet; returns the next number';
REVOKE EXECUTE ON FUNCTION @extschema@.ticket_share(regclass, bigint) FROM PUBLIC;

CREATE VIEW @extschema@.id_gen_stat_tickets AS
    SELECT t.datid, d.datname, t.relid, t.schemaname, t.sequencename,
           t.next_value, t.last_prefetched, t.increment_by, t.max_value, t.issued, t.prefetched, t.dropped,
           t.ranges, t.range_size, t.per_second, t.waits, t.refused, t.used, t.time_left
      FROM @extschema@.id_gen_stat_get('id_gen_stat_tickets') t (
               datid oid, relid oid, schemaname text, sequencename text,
               next_value bigint, last_prefetched bigint, increment_by bigint, max_value bigint,
               issued bigint, prefetched bigint, dropped bigint,
               ranges bigint, range_size bigint, per_second double precision,
               waits bigint, refused bigint, used double precision, time_left interval)
           LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) t.datid;
COMMENT ON VIEW @extschema@.id_gen_stat_tickets IS
    'sequences of all databases with numbers that this server has prefetched';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.datid IS 'OID of the database';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.datname IS 'name of the database';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.relid IS 'OID of the sequence';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.schemaname IS 'schema of the sequence when a session last looked it up';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.sequencename IS 'name of the sequence when a session last looked it up';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.next_value IS 'next number to return; NULL if none is prefetched';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.last_prefetched IS 'last prefetched number; in a fleet, may be above the sequence''s last value';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.increment_by IS 'increment of the sequence';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.max_value IS 'last number of the sequence';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.issued IS 'numbers returned to sessions';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.prefetched IS 'numbers prefetched but not yet returned; lost (as a gap) in a crash';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.dropped IS 'prefetched numbers that were dropped, as gaps';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.ranges IS 'number of ranges that were prefetched';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.range_size IS 'size of the next range';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.per_second IS 'numbers per second during the last two ranges';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.waits IS 'calls that waited for a range';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.refused IS 'calls that failed because no number was available';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.used IS 'used share of the sequence''s numbers, from 0 to 1';
COMMENT ON COLUMN @extschema@.id_gen_stat_tickets.time_left IS 'estimated time until the sequence is exhausted, at its average rate';
