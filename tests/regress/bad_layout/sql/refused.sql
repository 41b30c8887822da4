-- The value is kept so that it can be seen.
-- (a server that preloads has said so in its log; one that does not says so to the first who needs the library)
SET client_min_messages = error;
LOAD 'id_gen';
RESET client_min_messages;
SHOW id_gen.layout;
SELECT snowflake_next();
\echo SQLSTATE :SQLSTATE
SELECT snowflake_timestamp(0);
\echo SQLSTATE :SQLSTATE
SELECT name FROM snowflake_layouts() WHERE in_use;

-- naming a layout works, and so does what needs none
SELECT snowflake_timestamp(175928847299117063, 'discord');
SELECT public.uuidv7() IS NOT NULL;

-- a valid one is taken; the hint of the next refusal would be to restart
ALTER SYSTEM SET id_gen.layout = 'default';
ALTER SYSTEM RESET id_gen.layout;
