-- An ID past the last tick would be negative, or begin again at the first: there is none.
-- (a server that preloads has said so in its log; one that does not says so to the first who needs the library)
SET client_min_messages = error;
LOAD 'id_gen';
RESET client_min_messages;
SELECT snowflake_next();
\echo SQLSTATE :SQLSTATE
SELECT snowflake_min(now());
\echo SQLSTATE :SQLSTATE
-- old ones are read for ever
SELECT snowflake_timestamp(snowflake_make('2024-11-20 13:24:15+00', 0, 4194303, 8191));
