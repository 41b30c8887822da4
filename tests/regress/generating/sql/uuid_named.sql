-- UUIDs of a namespace and a name: RFC 9562, appendices A.2, A.4 and B.2.
SELECT uuidv3('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'www.example.com'),
       uuidv5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'www.example.com'),
       uuidv8('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'www.example.com');

-- the same as of the hash of the same bytes, whatever their length, and however they are stored
CREATE TEMP TABLE names AS
SELECT uuid '6ba7b811-9dad-11d1-80b4-00c04fd430c8' AS namespace, name
FROM (VALUES (''), ('ä😀'), ('https://example.com/?a=1'), (repeat('x', 126)), (repeat('x', 127)), (repeat('x', 1 << 20)))
     AS given (name);
CREATE FUNCTION pg_temp.stamped(hash bytea, version integer) RETURNS uuid LANGUAGE sql AS $$
SELECT encode(set_byte(set_byte(substring(hash FOR 16), 6, get_byte(hash, 6) & 15 | (version << 4)),
                       8, get_byte(hash, 8) & 63 | 128), 'hex')::uuid
$$;
SELECT length(name), uuidv3(namespace, name) = pg_temp.stamped(decode(md5(bytes), 'hex'), 3) AS by_md5,
       uuidv8(namespace, name) = pg_temp.stamped(sha256(bytes), 8) AS by_sha256
FROM names, LATERAL (SELECT uuid_send(namespace) || convert_to(name, 'UTF8')) AS hashed (bytes);
SELECT length(name), uuidv5(namespace, name) FROM names;
SELECT DISTINCT public.uuid_extract_version(uuidv5(namespace, name)) FROM names;
DROP TABLE names;
SELECT uuidv3(NULL, ''), uuidv5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', NULL), uuidv8(NULL, NULL);

-- the namespaces of RFC 9562, section 6.6
SELECT name, uuid_namespace(name) FROM (VALUES ('dns'), ('url'), ('oid'), ('x500'), (NULL)) AS given (name);
SELECT uuid_namespace('DNS');
\echo SQLSTATE :SQLSTATE
