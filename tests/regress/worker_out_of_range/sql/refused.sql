-- A number too large for the layout would run into the next field.
SELECT snowflake_next();
\echo SQLSTATE :SQLSTATE
