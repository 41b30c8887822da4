-- TypeIDs: the specification's examples (all of them: core/tests/typeid.rs), properties, and what is no TypeID.
SELECT clock_timestamp() AS started \gset
SELECT prefix, id, typeid_encode(id, prefix), typeid_decode(typeid_encode(id, prefix), prefix) = id AS both_ways,
       typeid_prefix(typeid_encode(id, prefix)) = prefix AS same_prefix
FROM (VALUES ('', uuid '00000000-0000-0000-0000-000000000000'), ('', '00000000-0000-0000-0000-00000000000a'),
             ('', 'ffffffff-ffff-ffff-ffff-ffffffffffff'), ('prefix', '0110c853-1d09-52d8-d73e-1194e95b5f19'),
             ('prefix', '01890a5d-ac96-774b-bcce-b302099a8057'), ('pre_fix', '00000000-0000-0000-0000-000000000000'))
     AS valid (prefix, id);
SELECT typeid_decode('prefix_01h455vb4pex5vsknk084sn02q', 'prefix');
SELECT length(typeid(repeat('x', 63)));

CREATE TEMP TABLE users (place serial, id text DEFAULT typeid('user'));
INSERT INTO users (place) SELECT generate_series(1, 100000);
SELECT count(*), count(DISTINCT id) FROM users;
SELECT count(*) AS out_of_order
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS previous FROM users) AS pairs
WHERE id COLLATE "C" <= previous;
SELECT DISTINCT public.uuid_extract_version(typeid_decode(id, 'user')), typeid_prefix(id) FROM users;
SELECT bool_and(uuidv7_timestamp(typeid_decode(id, 'user')) BETWEEN :'started' AND clock_timestamp())
FROM users;
SELECT bool_and(typeid_timestamp(id) = uuidv7_timestamp(typeid_decode(id, 'user'))) FROM users;
SELECT typeid_timestamp('prefix_01h455vb4pex5vsknk084sn02q') = uuidv7_timestamp('01890a5d-ac96-774b-bcce-b302099a8057') AS version_7,
       typeid_timestamp('prefix_00000000000000000000000000') AS other_version, typeid_timestamp(NULL);
DROP TABLE users;
SELECT typeid(NULL), typeid_encode(public.uuidv7(), NULL), typeid_encode(NULL, 'user'), typeid_decode(NULL, 'user'),
       typeid_decode(typeid('user'), NULL), typeid_prefix(NULL);

-- an ID of something else
SELECT typeid_decode('user_01h455vb4pex5vsknk084sn02q', 'order');
\echo SQLSTATE :SQLSTATE
SELECT typeid_decode('01h455vb4pex5vsknk084sn02q', 'order');
\echo SQLSTATE :SQLSTATE

-- prefixes that are none
SELECT typeid('User');
\echo SQLSTATE :SQLSTATE
SELECT typeid('user_');
\echo SQLSTATE :SQLSTATE
SELECT typeid(repeat('x', 64));
\echo SQLSTATE :SQLSTATE
SELECT typeid_encode('00000000-0000-0000-0000-000000000000', '_user');
\echo SQLSTATE :SQLSTATE
SELECT typeid_decode('user_01h455vb4pex5vsknk084sn02q', 'USER');
\echo SQLSTATE :SQLSTATE

-- texts that are none
SELECT typeid_prefix('PREFIX_00000000000000000000000000');
\echo SQLSTATE :SQLSTATE
SELECT typeid_prefix('préfix_00000000000000000000000000');
\echo SQLSTATE :SQLSTATE
SELECT typeid_prefix('_00000000000000000000000000');
\echo SQLSTATE :SQLSTATE
SELECT typeid_prefix('prefix_1234567890123456789012345');
\echo SQLSTATE :SQLSTATE
SELECT typeid_decode('prefix_0123456789ABCDEFGHJKMNPQRS', 'prefix');
\echo SQLSTATE :SQLSTATE
SELECT typeid_decode('prefix_8zzzzzzzzzzzzzzzzzzzzzzzzz', 'prefix');
\echo SQLSTATE :SQLSTATE
SELECT typeid_timestamp('prefix_8zzzzzzzzzzzzzzzzzzzzzzzzz');
\echo SQLSTATE :SQLSTATE
