-- The columns that the plan says can be typed, and fill themselves. (Shards and tickets have suites of their own.)
CREATE FUNCTION pg_temp.tries(kind text, key_column text, OUT rows bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TEMP TABLE %I (%s, n integer)', kind, key_column);
    EXECUTE format('INSERT INTO %I (n) SELECT generate_series(1, 3)', kind);
    EXECUTE format('SELECT count(DISTINCT id) FROM %I', kind) INTO rows;
END $$;
SELECT kind, pg_temp.tries(kind, key_column) FROM id_gen_recommend(1000, 1, 30) WHERE kind NOT IN ('snowflake of a shard', 'ticket')
ORDER BY kind COLLATE "C";
