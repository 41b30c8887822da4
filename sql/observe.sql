-- Causal order: what is made after an ID from elsewhere was observed is larger. Whoever may observe can make this server's
-- IDs lead its clock by id_gen.max_lead, so nobody but a superuser may until one grants it.

CREATE FUNCTION @extschema@.snowflake_advance(id bigint) RETURNS void
    AS 'MODULE_PATHNAME', 'snowflake_advance'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.snowflake_advance(bigint) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.snowflake_advance(bigint) IS
    'make all later snowflakes of this server greater than the given one';

CREATE FUNCTION @extschema@.snowflake_advance_trigger() RETURNS trigger
    AS 'MODULE_PATHNAME', 'snowflake_advance_trigger'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.snowflake_advance_trigger() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.snowflake_advance_trigger() IS
    'row trigger: call snowflake_advance for each new ID; argument: column name';
