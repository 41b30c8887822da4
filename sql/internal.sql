-- Functions that views and aggregates need, and that nobody calls by name: out of the way of `\df` and of completion.

CREATE SCHEMA id_gen_internal;
COMMENT ON SCHEMA id_gen_internal IS
    'support functions of the views and aggregates of id_gen';
