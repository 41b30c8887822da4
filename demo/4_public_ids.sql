-- 4. IDs from elsewhere: when was that made?
--
-- Each system counts from its own epoch, in its own layout; known ones are called by name, others
-- are written out. "known" is what the public source says of the moment, as precisely as it does.

CREATE TABLE public_id (source text, layout text, id bigint, known text);

INSERT INTO public_id VALUES
    -- Discord's developer documentation, "Snowflakes"
    ('Discord documentation', 'discord', 175928847299117063, '2016-04-30 11:18:25.796'),
    -- Wikipedia, "Snowflake ID": a tweet of June 2022
    ('Wikipedia''s tweet', 'twitter', 1541815603606036480, '2022-06-28 16:07:40.105'),
    -- instagram.com/p/BsOGulcndj-, the short code read as a base-64 number: posted on 4 January 2019
    ('Instagram''s egg', 'instagram', 1949525278281554174, '2019-01-04'),
    -- sony/sonyflake, question 33 of 2022-07-19: the time field quoted there, with machine and sequence 0
    ('Sonyflake question', 'sonyflake', 24869724975::bigint << 24, '2022-07-19'),
    -- README of the npm package "sonyflake", which counts milliseconds from its own epoch
    ('Sonyflake for Node.js', 'epoch=2020-05-18 tick=1ms time:39 sequence:8 worker:16',
     1211144891006978, '2020-05-18 20:03:09.861');

SELECT source, id, created_at, known, starts_with(created_at::text, known) AS agrees
  FROM public_id, snowflake_parse(id, layout);

SELECT snowflake_inspect(175928847299117063, 'discord') \g (format=unaligned tuples_only=on)
