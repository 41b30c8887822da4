-- UUIDs of version 4: properties, since they are never the same.
CREATE TEMP TABLE tokens AS SELECT public.uuidv4() AS id FROM generate_series(1, 100000);
SELECT count(*), count(DISTINCT id) FROM tokens;
SELECT DISTINCT public.uuid_extract_version(id), public.uuid_extract_timestamp(id) FROM tokens;

-- each bit but those of version and variant is set about half the time
SELECT count(*) AS suspicious_bits
FROM (SELECT bit, avg(get_bit(uuid_send(id), bit)) AS share
      FROM tokens, generate_series(0, 127) AS bit
      -- (PostgreSQL counts the bits of each byte from the lowest)
      WHERE bit NOT BETWEEN 52 AND 55 AND bit NOT IN (70, 71) GROUP BY bit) AS bits
WHERE share NOT BETWEEN 0.45 AND 0.55;
DROP TABLE tokens;
