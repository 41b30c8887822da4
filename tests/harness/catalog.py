"""What the catalogs say of the extensions: members of each as text that can be compared, functions as values.

The text holds in every database: no OIDs, and the schema left open.
"""

from collections.abc import Iterable
from typing import NamedTuple

from harness.cluster import Cluster

# In an order in which they can be installed: id_gen_tools requires id_gen.
EXTENSIONS = ("id_gen", "id_gen_mask", "id_gen_tools")
CREATE_ALL = "; ".join(f"CREATE EXTENSION {name}" for name in EXTENSIONS)
OURS = f"e.extname IN {EXTENSIONS}"

# Every object that belongs to the extension, and all that its kind has: a function its row, a view its query and its
# columns, and each its privileges. Names come with their schema, so that it can be left open.
MEMBERS = """
    SET search_path = '';
    WITH extension AS (SELECT * FROM pg_catalog.pg_extension WHERE extname = '{extension}')
    SELECT replace(line, schema || '.', '@extschema@.')
      FROM (
        SELECT quote_ident(e.extnamespace::regnamespace::text) AS schema,
               concat_ws(' ', identity,
                   (to_jsonb(p) - ARRAY['oid', 'pronamespace', 'proowner', 'proacl', 'proargdefaults'])::text,
                   pg_get_expr(p.proargdefaults, 0),
                   pg_get_viewdef(c.oid),
                   (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attacl,
                                                col_description(attrelid, attnum)), ', ' ORDER BY attnum)
                      FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0),
                   c.reloptions, coalesce(p.proacl::text, c.relacl::text, 'acl by default'),
                   '--', coalesce(obj_description(d.objid, d.classid::regclass::text), 'no comment')) AS line
          FROM extension e
          JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
         CROSS JOIN pg_identify_object(d.classid, d.objid, d.objsubid)
          LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
        UNION ALL
        SELECT quote_ident(extnamespace::regnamespace::text),
               concat_ws(' ', 'extension', (to_jsonb(e) - ARRAY['oid', 'extowner', 'extnamespace'])::text,
                   '--', coalesce(obj_description(oid, 'pg_extension'), 'no comment'))
          FROM extension e
      ) members
     ORDER BY 1
"""


def installed(cluster: Cluster, dbname: str = "postgres", extension: str = "id_gen") -> list[str]:
    """An extension as it is installed in a database: a line for each of its objects, and one for itself."""
    return cluster.psql(MEMBERS.format(extension=extension), dbname).splitlines()


def fresh(cluster: Cluster, extension: str = "id_gen") -> list[str]:
    """An extension as this server installs it today."""
    with cluster.database("fresh") as dbname:
        cluster.psql(f"CREATE EXTENSION {extension} CASCADE", dbname)
        return installed(cluster, dbname, extension)


class Argument(NamedTuple):
    """An argument of a function, or a column that it returns. A name may be missing."""

    name: str
    type: str


class Function(NamedTuple):
    """A function of an extension, as pg_proc has it."""

    name: str
    """With its schema, as a call needs it where PostgreSQL has a function of the same name."""
    arguments: tuple[Argument, ...]
    columns: tuple[Argument, ...]
    """What it returns if that is a row: its OUT arguments."""
    returns_set: bool
    is_strict: bool
    is_volatile: bool
    is_of_library: bool
    """Whether a call runs the library alone: it needs no trigger and no list of columns, nor makes objects in the
    database, as those do that are volatile and may not run beside parallel workers."""
    is_for_superusers: bool
    """Whether it changes the server's state: then not even monitoring may call it."""
    result: str
    """The type it returns."""
    comment: str

    def __str__(self) -> str:
        return f"{self.bare_name}({', '.join(' '.join(argument).strip() for argument in self.arguments)})"

    @property
    def bare_name(self) -> str:
        return self.name.rpartition(".")[2]

    def call(self, values: Iterable[str]) -> str:
        """A call with these values, which are SQL."""
        return f"{self.name}({', '.join(values)})"


# All arguments, in order: name, type and mode.
FUNCTIONS = f"""
    SELECT format('%I.%I', n.nspname, p.proname),
           (SELECT coalesce(jsonb_agg(jsonb_build_array(coalesce(name, ''), type::regtype, coalesce(mode, 'i'))
                                      ORDER BY place), '[]')
              FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargnames, p.proargmodes)
                   WITH ORDINALITY AS argument (type, name, mode, place)),
           p.proretset, p.proisstrict, p.provolatile = 'v', l.lanname = 'c' AND p.prorettype <> 'trigger'::regtype
               AND NOT (p.provolatile = 'v' AND p.proparallel = 'u')
               AND NOT (p.prorettype = 'record'::regtype AND p.proallargtypes IS NULL),
           p.provolatile = 'v' AND NOT has_function_privilege('pg_monitor', p.oid, 'EXECUTE'),
           p.prorettype::regtype::text, coalesce(obj_description(p.oid, 'pg_proc'), '')
      FROM pg_proc p
      JOIN pg_language l ON l.oid = p.prolang
      JOIN pg_namespace n ON n.oid = p.pronamespace
      JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
      JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND {OURS}
     ORDER BY p.oid::regprocedure::text COLLATE "C"
"""

VIEWS = f"""
    SELECT format('%I.%I', n.nspname, c.relname)
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
      JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND {OURS}
     WHERE c.relkind = 'v'
     ORDER BY 1
"""


TWINS = f"""
    SELECT format('%s(%s)', p.proname, oidvectortypes(p.proargtypes))
      FROM pg_proc p
      JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
      JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND {OURS}
      JOIN pg_proc own ON (own.pronamespace, own.proname, own.proargtypes, own.prorettype)
                        = ('pg_catalog'::regnamespace, p.proname, p.proargtypes, p.prorettype)
     ORDER BY 1
"""


def functions(cluster: Cluster, dbname: str = "postgres") -> list[Function]:
    """Every function of the extensions that are installed in a database."""
    with cluster.connect(dbname) as connection:
        found = [_function(*row) for row in connection.execute(FUNCTIONS)]
    assert found, "no function of an extension"
    return found


def _function(name: str, arguments: list[tuple[str, str, str]], *properties: bool | str) -> Function:
    taken = (Argument(name, type) for name, type, mode in arguments if mode == "i")
    returned = (Argument(name, type) for name, type, mode in arguments if mode in "ot")
    return Function(name, tuple(taken), tuple(returned), *properties)


def views(cluster: Cluster) -> list[str]:
    """Every view of the extensions that are installed, with its schema."""
    return cluster.psql(VIEWS).splitlines()


def twins(cluster: Cluster) -> list[str]:
    """The extensions' functions that this PostgreSQL has too: with the same name, arguments and result."""
    return cluster.psql(TWINS).splitlines()
