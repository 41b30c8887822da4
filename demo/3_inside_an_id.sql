-- 3. What an ID says about itself

SELECT c.name, c.id, p.* FROM customer c, snowflake_parse(c.id) p;

-- The same ID as a picture of its bits:

SELECT snowflake_inspect(id) FROM customer ORDER BY id LIMIT 1 \g (format=unaligned tuples_only=on)

-- A UUIDv7 carries its time too:

SELECT id, uuidv7_timestamp(id) FROM invoice ORDER BY id LIMIT 1;
