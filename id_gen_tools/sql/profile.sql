-- What the IDs of a column tell about how they were made. Every role may call it: the table is read with the caller's own
-- privileges.
--
-- Time that goes back along the rows shows only where they are read as they are stored: by one process, from the first
-- page on.

CREATE FUNCTION @extschema@.id_gen_profile(
        relation regclass, column_name text, sample_percent double precision DEFAULT 100,
        layout text DEFAULT '', worker_ids integer[] DEFAULT '{}', others regclass[] DEFAULT '{}',
        OUT section text, OUT item text, OUT ids bigint, OUT share double precision,
        OUT first_at timestamptz, OUT last_at timestamptz, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_profile'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED COST 1000000 ROWS 100
    SET search_path = pg_catalog, pg_temp
    SET synchronize_seqscans = off
    SET max_parallel_workers_per_gather = 0;
COMMENT ON FUNCTION @extschema@.id_gen_profile(regclass, text, double precision, text, integer[], regclass[]) IS
    'analyze the IDs in a column: kinds, workers, times, bursts and duplicates';
