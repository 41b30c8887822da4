-- Decoding needs neither shared memory nor a preloaded library.

-- public IDs with a published time: see core/tests/layouts.rs for their sources
SELECT layout, id, (snowflake_parse(id, layout)).*
FROM (VALUES ('twitter', 1541815603606036480),
             ('twitter', 1101668899018334209),
             ('discord', 175928847299117063),
             ('discord', 105484726235607040),
             ('instagram', 2384288897814875714),
             ('sonyflake', 465233541865341384),
             ('sonyflake', 9176965353308225537)) AS public_ids (layout, id);
SELECT snowflake_inspect(175928847299117063, 'discord');
SELECT snowflake_inspect(465233541865341384, 'sonyflake');
SELECT snowflake_inspect(0);

-- two of the fields by themselves, also where the layout lacks them
SELECT layout, snowflake_datacenter_id(id, layout), snowflake_worker_id(id, layout)
FROM (VALUES ('twitter', 1541815603606036480), ('discord', 175928847299117063), ('sonyflake', 465233541865341384),
             ('js', 7), (NULL, 7)) AS given (layout, id);
SELECT snowflake_datacenter_id(id) = (snowflake_parse(id)).datacenter_id AS same_datacenter,
       snowflake_worker_id(id) = (snowflake_parse(id)).worker_id AS same_worker
FROM (VALUES (snowflake_make('2026-01-01 00:00+00', 3, 4, 5))) AS given (id);
SELECT snowflake_worker_id(-1);
\echo SQLSTATE :SQLSTATE
SELECT snowflake_datacenter_id(9007199254740992, 'js');
\echo SQLSTATE :SQLSTATE

-- the same layout by name and by text
SELECT snowflake_parse(1541815603606036480, 'twitter')
     = snowflake_parse(1541815603606036480, 'epoch=1288834974657ms tick=1ms time:41 datacenter:5 worker:5 sequence:12');

-- the layouts that the first version had; of each, also of a later one, the figures follow from the fields
SELECT name, layout, nodes, ids_per_second, exhausted_at FROM snowflake_layouts()
WHERE name IN ('default', 'twitter', 'discord', 'instagram', 'sonyflake', 'baidu', 'leaf', 'pgedge', 'wide', 'js');
SELECT name AS other_nodes FROM snowflake_layouts() WHERE nodes <> 1::bigint << (datacenter_bits + worker_bits);
SELECT name AS other_rate FROM snowflake_layouts()
WHERE ids_per_second <> (1::bigint << sequence_bits) * 1000 / (extract(epoch FROM tick) * 1000)::bigint;
SELECT name AS other_end FROM snowflake_layouts() -- an unsigned one before its IDs would be negative
WHERE exhausted_at <> epoch + tick * (1::bigint << time_bits - (layout LIKE '% unsigned %')::integer);
SELECT name FROM snowflake_layouts() WHERE in_use;

-- bounds, and where one layout ends
SELECT snowflake_min('2026-01-01 00:00:00+00', 'wide'), snowflake_max('2026-01-01 00:00:00.000999+00', 'wide'),
       snowflake_min('2026-01-01 00:00:00.001+00', 'wide');
SELECT count(*) > 9 AS many, bool_and(snowflake_min(epoch, name) = 0) AS first_is_0,
       bool_and(snowflake_timestamp(snowflake_max(exhausted_at - interval '1 ms', name), name) = exhausted_at - tick) AS last_tick
FROM snowflake_layouts();
SELECT snowflake_min('2023-12-31 23:59:59.999+00', 'default');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_max('2093-09-06 15:47:35.552+00', 'default');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_min('infinity', 'default');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_max('-infinity');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_min('294276-12-31 23:59:59+00');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_min('4714-11-24 00:00:00+00 BC');
\echo SQLSTATE :SQLSTATE

-- IDs that the layout cannot have made
SELECT snowflake_parse(-1);
\echo SQLSTATE :SQLSTATE
SELECT snowflake_timestamp(-9223372036854775808, 'default');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_inspect(9007199254740992, 'js');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_parse(-1, 'discord');

-- building
SELECT snowflake_make('2026-01-01 00:00:00+00', 31, 31, 4095, 'default');
SELECT snowflake_make('2026-01-01 00:00:00+00', 0, 63, 65535, 'wide') = snowflake_max('2026-01-01 00:00:00+00', 'wide');
SELECT snowflake_make('2026-01-01 00:00:00+00', 0, 32, 0, 'default');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_make('2026-01-01 00:00:00+00', 1, 0, 0, 'wide');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_make('2026-01-01 00:00:00+00', 0, 0, -1, 'default');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_make('2026-01-01 00:00:00+00', 0, 0, 4096, 'default');
\echo SQLSTATE :SQLSTATE

-- layouts that are none (an unknown name: tests/cluster/test_layout_names.py)
SELECT snowflake_timestamp(0, '');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_timestamp(0, 'epoch=2024-01-01 time:41 datacenter:5 worker:5 sequence:13');
\echo SQLSTATE :SQLSTATE
SELECT snowflake_timestamp(0, repeat('epoch=2024-01-01 ', 100000));
\echo SQLSTATE :SQLSTATE

-- NULL in, NULL out
SELECT snowflake_parse(NULL), snowflake_parse(0, NULL), snowflake_timestamp(NULL), snowflake_min(NULL),
       snowflake_max(NULL, 'wide'), snowflake_make(NULL, 0, 0, 0), snowflake_inspect(NULL);
