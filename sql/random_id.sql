-- Random IDs, which are text: a prefix, and so many characters of an alphabet. Without arguments they are as long as
-- nanoid's, 126 bits.

CREATE FUNCTION @extschema@.id_random(
    prefix text DEFAULT '',
    size integer DEFAULT 21,
    alphabet text DEFAULT '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-'
) RETURNS text
    AS 'MODULE_PATHNAME', 'id_random'
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.id_random(text, integer, text) IS
    'new random ID: prefix, then size characters of the alphabet';

CREATE FUNCTION @extschema@.id_random_parse(
    id text,
    prefix text DEFAULT '',
    size integer DEFAULT 21,
    alphabet text DEFAULT '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-'
) RETURNS text
    AS 'MODULE_PATHNAME', 'id_random_parse'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.id_random_parse(text, text, integer, text) IS
    'random part of an ID; an error if the ID does not have this form';

CREATE FUNCTION @extschema@.id_random_collision_probability(
    ids double precision,
    size integer DEFAULT 21,
    alphabet text DEFAULT '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-'
) RETURNS double precision
    AS 'MODULE_PATHNAME', 'id_random_collision_probability'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.id_random_collision_probability(double precision, integer, text) IS
    'probability of a collision among the given number of random IDs';
