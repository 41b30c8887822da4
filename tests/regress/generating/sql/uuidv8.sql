-- A snowflake and a namespace as one UUID: both ways, in order, and where one does not fit.
CREATE TEMP TABLE ids AS
SELECT id, namespace
FROM (VALUES (0::bigint), (1), (15), (16), (4095), (4096), (65535), (65536), (175928847299117063), (9223372036854775807),
             (-9223372036854775808), (-1)) AS ids (id),
     (VALUES (0::bigint), (1), (288230376151711743)) AS namespaces (namespace);
SELECT id, namespace, uuidv8_from_snowflake(id, namespace) FROM ids WHERE namespace > 1;
-- the namespace as docs/family.md reads it
SELECT count(*), bool_and(uuidv8_to_snowflake(made) = id), bool_and(public.uuid_extract_version(made) = 8),
       bool_and(('x' || right(replace(made::text, '-', ''), 15))::bit(60)::bigint & 288230376151711743 = namespace)
FROM ids, uuidv8_from_snowflake(id, namespace) AS made;
SELECT count(*) AS out_of_order
FROM ids AS a, ids AS b
WHERE a.id < b.id AND a.id >= 0 AND uuidv8_from_snowflake(a.id, a.namespace) >= uuidv8_from_snowflake(b.id, b.namespace);
DROP TABLE ids;

SELECT uuidv8_to_snowflake(gen_random_uuid()), uuidv8_to_snowflake(NULL),
       uuidv8_from_snowflake(NULL, 1), uuidv8_from_snowflake(1, NULL);
SELECT uuidv8_from_snowflake(1, -1);
\echo SQLSTATE :SQLSTATE
SELECT uuidv8_from_snowflake(1, 288230376151711744);
\echo SQLSTATE :SQLSTATE
