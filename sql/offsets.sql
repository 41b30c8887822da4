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
    'for each sequence of a schema, or of those given: the statement that makes it one of a node of several, whose numbers never meet, above the highest number there is and the one given; or what is in the way, and what takes it away';

CREATE FUNCTION @extschema@.id_gen_offsets_set(
        schema regnamespace, node integer, node_count integer, above bigint DEFAULT NULL, sequences regclass[] DEFAULT NULL,
        OUT sequence regclass, OUT first_value bigint, OUT numbers_left bigint)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_set'
    LANGUAGE c VOLATILE PARALLEL UNSAFE COST 10000 ROWS 20
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_set(regnamespace, integer, integer, bigint, regclass[]) IS
    'makes every sequence of a schema, or of those given, one of a node of several, whose numbers never meet: all of them or, if something is in the way, none';

CREATE FUNCTION @extschema@.id_gen_offsets_fence(
        schema regnamespace, above bigint, sequences regclass[] DEFAULT NULL,
        OUT sequence regclass, OUT numbers_left bigint)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_fence'
    LANGUAGE c VOLATILE PARALLEL UNSAFE COST 10000 ROWS 20
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_fence(regnamespace, bigint, regclass[]) IS
    'holds every sequence of a schema, or of those given, at or below a number, above which the sequences of all nodes go on once they are divided among another number of nodes';

CREATE FUNCTION @extschema@.id_gen_offsets_check(
        schema regnamespace, node integer, node_count integer, sequences regclass[] DEFAULT NULL,
        OUT sequence regclass, OUT status text, OUT found text, OUT remedy text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_check'
    LANGUAGE c VOLATILE PARALLEL RESTRICTED COST 10000 ROWS 20
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_check(regnamespace, integer, integer, regclass[]) IS
    'whether each sequence of a schema, or of those given, makes the numbers of this node alone, and no row is in its way; what to type if not';

CREATE FUNCTION @extschema@.id_gen_offsets_grow_plan(
        schema regnamespace, node_count integer, new_node_count integer, above bigint DEFAULT NULL,
        OUT step integer, OUT node integer, OUT statement text, OUT note text)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'id_gen_offsets_grow_plan'
    LANGUAGE c STABLE PARALLEL SAFE ROWS 10
    SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.id_gen_offsets_grow_plan(regnamespace, integer, integer, bigint) IS
    'what to type on which node, and in which order, to divide the sequences of a schema among more nodes while they are in use; changes nothing';
