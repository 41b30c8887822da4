-- 6. UUIDv7 beside UUIDv4: the same 16 bytes, in order
--
-- Half a million keys each. Random keys land all over the index and split its pages; keys in
-- order fill one page after the other.

CREATE TABLE key_v4 (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), number int);
CREATE TABLE key_v7 (id uuid PRIMARY KEY DEFAULT public.uuidv7(), number int);

\timing on
INSERT INTO key_v4 (number) SELECT generate_series(1, 500000);
INSERT INTO key_v7 (number) SELECT generate_series(1, 500000);
\timing off

SELECT index, pg_size_pretty(pg_relation_size(index)) AS size
  FROM unnest(ARRAY['key_v4_pkey', 'key_v7_pkey']::regclass[]) AS index;
