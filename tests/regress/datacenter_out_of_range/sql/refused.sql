-- A number for a field that the layout lacks.
SELECT snowflake_next();
\echo SQLSTATE :SQLSTATE
