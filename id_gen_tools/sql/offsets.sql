-- Sequences of several servers whose numbers never meet. Every role may call these functions: they read and alter with the
-- caller's own privileges.

CREATE FUNCTION @extschema@.id_gen_offsets_plan(
        schema regnamespace, node integer, node_count integer, above bigint DEFAULT NULL, sequences regclass[] DEFAULT NULL,
        OUT sequence regclass, OUT "columns" text, OUT increment bigint, OUT last_value bigint, OUT highest bigint,
        OUT first_value bigint, OUT numbers_left bigint, OUT statement text, OUT obstacle text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_plan'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED COST 10000 ROWS 20
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_plan(regnamespace, integer, integer, bigint, regclass[]) IS
    'show how to restrict each sequence of a schema to the numbers of one node';

CREATE FUNCTION @extschema@.id_gen_offsets_set(
        schema regnamespace, node integer, node_count integer, above bigint DEFAULT NULL, sequences regclass[] DEFAULT NULL,
        OUT sequence regclass, OUT first_value bigint, OUT numbers_left bigint)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_set'
    LANGUAGE c VOLATILE PARALLEL UNSAFE COST 10000 ROWS 20
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_set(regnamespace, integer, integer, bigint, regclass[]) IS
    'restrict the sequences of a schema to the numbers of one node';

CREATE FUNCTION @extschema@.id_gen_offsets_fence(
        schema regnamespace, above bigint, sequences regclass[] DEFAULT NULL,
        OUT sequence regclass, OUT numbers_left bigint)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_fence'
    LANGUAGE c VOLATILE PARALLEL UNSAFE COST 10000 ROWS 20
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_fence(regnamespace, bigint, regclass[]) IS
    'set an upper limit on sequences before they are divided among more nodes';

CREATE FUNCTION @extschema@.id_gen_offsets_check(
        schema regnamespace, node integer, node_count integer, sequences regclass[] DEFAULT NULL,
        OUT sequence regclass, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_check'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED COST 10000 ROWS 20
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_check(regnamespace, integer, integer, regclass[]) IS
    'check that each sequence of a schema returns only numbers of this node';

CREATE FUNCTION @extschema@.id_gen_offsets_grow_plan(
        schema regnamespace, node_count integer, new_node_count integer, above bigint DEFAULT NULL,
        OUT step integer, OUT node integer, OUT statement text, OUT note text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_grow_plan'
    LANGUAGE c STABLE PARALLEL SAFE ROWS 10
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_grow_plan(regnamespace, integer, integer, bigint) IS
    'list the statements that divide sequences among more nodes, in order';
