-- Causal order: what is made after an ID from elsewhere was observed is larger. Whoever may observe can make this server's
-- IDs lead its clock by id_gen.max_lead, so nobody but a superuser may until one grants it.

CREATE FUNCTION @extschema@.snowflake_advance(id bigint) RETURNS void
    AS 'MODULE_PATHNAME', 'snowflake_advance'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.snowflake_advance(bigint) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.snowflake_advance(bigint) IS
    'makes every snowflake that this server hands out from now on, of shards too, larger than this one from elsewhere, which may be as far ahead of the clock as its own';

CREATE FUNCTION @extschema@.snowflake_advance_trigger() RETURNS trigger
    AS 'MODULE_PATHNAME', 'snowflake_advance_trigger'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED;
REVOKE EXECUTE ON FUNCTION @extschema@.snowflake_advance_trigger() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.snowflake_advance_trigger() IS
    'trigger for each row that is inserted or updated: observes its new ID, in the column that its argument names, or in the column id';
