-- What a UUID of any version says of itself: the answers of PostgreSQL 18's own functions. RFC 9562, appendices A and B,
-- the nil and the max UUID, and the other variants.
SET timezone = 'UTC';
CREATE TEMP TABLE uuids (place serial, what text, id uuid);
INSERT INTO uuids (what, id) VALUES
('A.1, version 1', 'C232AB00-9414-11EC-B3C8-9F6BDECED846'),
('A.2, version 3', '5df41881-3aed-3515-88a7-2f4a814cf09e'),
('A.3, version 4', '919108f7-52d1-4320-9bac-f847db4148a8'),
('A.4, version 5', '2ed6657d-e927-568b-95e1-2665a8aea6a2'),
('A.5, version 6', '1EC9414C-232A-6B00-B3C8-9F6BDECED846'),
('A.6, version 7', '017F22E2-79B0-7CC3-98C4-DC0C0C07398F'),
('B.1, version 8', '2489E9AD-2EE2-8E00-8EC9-32D5F69181C0'),
('B.2, version 8', '5c146b14-3c52-8afd-938a-375d0df1fbf6'),
('nil', '00000000-0000-0000-0000-000000000000'),
('max', 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
('NCS', '11111111-1111-1111-1111-111111111111'),
('Microsoft', '11111111-1111-7111-c111-111111111111'),
('no version', '11111111-1111-0111-8111-111111111111'),
('NULL', NULL);
SELECT what, public.uuid_extract_version(id) AS version, public.uuid_extract_timestamp(id) AS timestamp
FROM uuids ORDER BY place;
SELECT DISTINCT public.uuid_extract_version(gen_random_uuid()), public.uuid_extract_timestamp(gen_random_uuid());

-- minimum and maximum, of rows, of none, of groups, and by an index
SELECT public.min(id), public.max(id) FROM uuids;
SELECT public.min(id), public.max(id) FROM uuids WHERE id IS NULL;
SELECT public.uuid_extract_version(id) AS version, public.min(id), public.max(id) FROM uuids GROUP BY 1 ORDER BY 1;
SELECT uuid_smaller('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002'),
       uuid_larger('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002');
SELECT uuid_smaller(NULL, '00000000-0000-0000-0000-000000000002'), uuid_larger(NULL, NULL);
CREATE INDEX ON uuids (id);
SET enable_seqscan = off;
CREATE FUNCTION pg_temp.takes_an_index(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    plan text;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
    RETURN plan ~ 'Index (Only )?Scan';
END $$;
SELECT pg_temp.takes_an_index('SELECT public.min(id) FROM uuids'), pg_temp.takes_an_index('SELECT public.max(id) FROM uuids');
SELECT public.min(id), public.max(id) FROM uuids;
DROP TABLE uuids;
