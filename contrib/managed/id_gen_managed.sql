-- id_gen without its library: the same SQL names, layouts and bits, for services that load no library of ours.
--
-- Version 0.1.0, for PostgreSQL 15 and later. Any owner of a database installs it, in one transaction; the functions are
-- made in the first schema of the search path, and whatever they need in the schema id_gen_managed:
--
--     psql --single-transaction -v ON_ERROR_STOP=1 -f id_gen_managed.sql
--     SELECT id_gen_managed.configure(worker_id => <worker ID>);    -- one that no other database or server uses
--
-- It can be run again, to update what is installed. `SELECT id_gen_managed.uninstall();` removes it.
-- docs/managed-services.md says what holds, and what it lacks beside the library.
--
-- How no ID is made twice. The sequence field of an ID is a count and, in its lowest bits, the number of a *lane*. Each
-- lane has a sequence, whose value is the last position of the lane: tick and count as one number. Only who holds the
-- lane's advisory lock moves it, to the clock's position, or on by one where it is there already, never back; and holds
-- the lock for no longer than one call takes. A session keeps to its lane, and goes to another one while that is held.
-- Sequences are not rolled back, and every move is in the write-ahead log before the ID is returned, so that a commit
-- which survives a crash or a failover has the lanes' positions before it.
--
-- What the log lost was in no transaction that survived, but a client may have seen it. Every position is at most
-- `max_lead` ahead of the clock, and the first call after a start, a crash or a promotion moves all lanes past that:
-- so those are not repeated either, unless the clock goes back as well.

-- Calls of functions here pass all arguments, with the very types of the function: such a call cannot resolve to another
-- function in the schema that fits it better.

-- What is parsed here and not when it is called, such as the body of a function in SQL, shall not find another role's
-- function or operator in the path. The path comes back at the end. Until it is set, and where it is not, every name here
-- says where it is.
DO $$
BEGIN
    PERFORM pg_catalog.set_config('id_gen_managed.home', pg_catalog.current_schema(), true),
            pg_catalog.set_config('id_gen_managed.search_path', pg_catalog.current_setting('search_path'), true),
            pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END $$;

-- Outside of a transaction that is gone with the statement, and psql goes on after an error: so nothing can be written from
-- here to the end.
DO $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        PERFORM pg_catalog.set_config('default_transaction_read_only', 'on', false);
    END IF;
END $$;

DO $$
DECLARE
    schema_owner name;
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RAISE EXCEPTION 'the script must run in one transaction'
            USING ERRCODE = 'no_active_sql_transaction',
                  DETAIL = 'Otherwise its functions would depend on the search_path of the session. '
                           'The session is now read-only, so that nothing is installed.',
                  HINT = 'Run: psql --single-transaction -v ON_ERROR_STOP=1 -f id_gen_managed.sql';
    END IF;
    -- What is in a schema of another role's, such as a trigger, would run as the role that runs this.
    schema_owner := (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace n WHERE n.nspname = 'id_gen_managed');
    IF schema_owner <> current_user THEN
        RAISE EXCEPTION 'the schema id_gen_managed belongs to another role'
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = format('Its owner is %I, and the script is run by %I. Code of role %1$I could run '
                                  'with the privileges of this session.', schema_owner, current_user),
                  HINT = format('If this script created the schema, run it as role %I. Otherwise: '
                                'DROP SCHEMA id_gen_managed CASCADE;', schema_owner);
    END IF;
END $$;

DO $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RETURN; -- not in one transaction, as was said
    END IF;
    -- Existing objects keep their privileges, such as a USAGE that was revoked from PUBLIC and granted to some roles only. A
    -- schema that was made for the script is new.
    PERFORM set_config('id_gen_managed.existing', array_agg(format('%s.%s', o.tableoid, o.oid))::text, true)
       FROM (SELECT n.tableoid, n.oid FROM pg_namespace n WHERE n.nspname = 'id_gen_managed'
              UNION ALL
             SELECT c.tableoid, c.oid FROM pg_class c WHERE c.relnamespace = to_regnamespace('id_gen_managed')
              UNION ALL
             SELECT p.tableoid, p.oid FROM pg_proc p WHERE p.pronamespace = to_regnamespace('id_gen_managed')) o
      WHERE to_regclass('id_gen_managed.given_to') IS NOT NULL;
    CREATE SCHEMA IF NOT EXISTS id_gen_managed;
END $$;
COMMENT ON SCHEMA id_gen_managed IS 'id_gen without its library: what its functions need';

-- ---------------------------------------------------------------------------------------------------------------------
-- Privileges
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION id_gen_managed.restricted(
        OUT object text, OUT kind text, OUT name text, OUT owner oid, OUT acl aclitem[])
    RETURNS SETOF record LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s.%s', n.tableoid, n.oid), 'SCHEMA', n.oid::regnamespace::text, n.nspowner, n.nspacl
      FROM pg_namespace n WHERE n.nspname = 'id_gen_managed'
     UNION ALL
    SELECT format('%s.%s', c.tableoid, c.oid), CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
           c.oid::regclass::text, c.relowner, c.relacl
      FROM pg_class c WHERE c.relnamespace = 'id_gen_managed'::regnamespace AND c.relkind IN ('r', 'S')
     UNION ALL
    -- What moves lanes, and what an administrator decides. `allocate` runs as its owner.
    SELECT format('%s.%s', p.tableoid, p.oid), 'FUNCTION', p.oid::regprocedure::text, p.proowner,
           coalesce(p.proacl, acldefault('f', p.proowner))
      FROM pg_proc p
     WHERE p.pronamespace = 'id_gen_managed'::regnamespace AND p.proparallel = 'u'
       AND p.proname !~ '^(snowflake|uuid)' AND p.proname <> 'allocate'
$$;
COMMENT ON FUNCTION id_gen_managed.restricted() IS 'the objects that only their owner may use, with their privileges';

-- What is created gets the default privileges of its owner, and those open it to other roles. Existing objects are left as
-- they are: what they have beyond their owner's privileges was granted.
CREATE OR REPLACE FUNCTION id_gen_managed.revoke_defaults(existing text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    each record;
BEGIN
    FOR each IN
        SELECT DISTINCT r.kind, r.name,
               CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role
          FROM id_gen_managed.restricted() r, aclexplode(r.acl) x
         WHERE r.object <> ALL (existing) AND x.grantee <> r.owner
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM %s CASCADE', each.kind, each.name, each.role);
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_managed.revoke_defaults(text[]) IS
    'revoke from other roles what default privileges have granted on new objects';

-- A part of another object, such as a member of an extension or the multirange type of a range, is dropped with the whole.
-- The owner of the schema may drop every object in it, and elsewhere only objects of its own.
CREATE OR REPLACE FUNCTION id_gen_managed.how_to_drop(class oid, object oid) RETURNS text
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE part (classid, objid, depth) AS (
        SELECT class, object, 0
         UNION ALL
        SELECT d.refclassid, d.refobjid, p.depth + 1
          FROM part p JOIN pg_depend d ON (d.classid, d.objid, d.objsubid) = (p.classid, p.objid, 0) AND d.deptype IN ('i', 'e')
    ), whole AS (
        SELECT p.classid, w.*, coalesce(s.refobjid, 10) AS owner -- PostgreSQL records no objects of its first superuser
          FROM (SELECT * FROM part ORDER BY depth DESC LIMIT 1) p
         CROSS JOIN pg_identify_object(p.classid, p.objid, 0) w
          LEFT JOIN pg_shdepend s ON (s.classid, s.objid, s.deptype) = (p.classid, p.objid, 'o')
           AND s.dbid = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
    )
    SELECT format(CASE WHEN w.schema = n.nspname OR w.classid = 'pg_trigger'::regclass OR w.owner = n.nspowner THEN 'Drop it: %s'
                       ELSE 'A superuser or role %2$I can drop it: %1$s' END,
                  format('DROP %s %s;', CASE WHEN w.classid = 'pg_proc'::regclass THEN 'ROUTINE' -- also of an aggregate f()
                                             WHEN w.classid = 'pg_statistic_ext'::regclass THEN 'STATISTICS'
                                             ELSE upper(w.type) END, w.identity),
                  pg_get_userbyid(w.owner))
      FROM whole w JOIN pg_namespace n ON n.nspname = 'id_gen_managed'
$$;
COMMENT ON FUNCTION id_gen_managed.how_to_drop(oid, oid) IS 'a HINT for an object in the schema: the statement, and who may run it';

-- Code of another role in the schema would run as whoever calls the script's functions: a function whose arguments fit a call
-- better, or a trigger. So only the owner creates anything there, whatever default privileges have granted: those of a schema
-- that was made before the script was run, or of a database in which a dump was restored. Such a restore makes all objects anew,
-- and the table of the dump names another OID than its own.
--
-- Other dependents of the schema cannot run. Default privileges and publications are dropped with it. A multirange type has no
-- functions but PostgreSQL's. Statistics and extensions have none at all: the objects of an extension have their own owners.
CREATE OR REPLACE FUNCTION id_gen_managed.close_schema() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own CONSTANT pg_namespace := (SELECT n FROM pg_namespace n WHERE n.oid = 'id_gen_managed'::regnamespace);
    other record;
BEGIN
    FOR other IN
        SELECT DISTINCT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role
          FROM aclexplode(own.nspacl) x WHERE x.privilege_type = 'CREATE' AND x.grantee <> own.nspowner
    LOOP
        EXECUTE format('REVOKE CREATE ON SCHEMA id_gen_managed FROM %s CASCADE', other.role);
    END LOOP;
    SELECT named.type, named.identity, pg_get_userbyid(s.refobjid) AS role, o.classid, o.objid INTO other
      FROM (SELECT d.classid, d.objid, d.classid AS code_class, d.objid AS code
              FROM pg_depend d
             WHERE (d.refclassid, d.refobjid, d.deptype) = ('pg_namespace'::regclass, own.oid, 'n')
               AND d.classid <> ALL ('{pg_extension,pg_statistic_ext}'::regclass[])
               AND (d.classid, d.objid) NOT IN (SELECT t.tableoid, t.oid FROM pg_type t WHERE t.typtype = 'm')
             UNION ALL
            SELECT 'pg_trigger'::regclass, t.oid, 'pg_proc'::regclass, t.tgfoid
              FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = own.oid) o
      JOIN pg_shdepend s ON (s.classid, s.objid, s.deptype) = (o.code_class, o.code, 'o') AND s.refobjid <> own.nspowner
       AND s.dbid = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
     CROSS JOIN pg_identify_object(o.classid, o.objid, 0) named
     -- The newest first, which others cannot depend on; a trigger and a sequence may go with a table.
     ORDER BY named.type IN ('trigger', 'sequence'), o.objid DESC
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the schema id_gen_managed holds code of another role'
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = format('The %s %s belongs to %I. It could run with the privileges of this session.', other.type,
                                  other.identity, other.role),
                  HINT = id_gen_managed.how_to_drop(other.classid, other.objid);
    END IF;
    IF to_regclass('id_gen_managed.given_to') IS NOT NULL THEN
        IF EXISTS (SELECT FROM id_gen_managed.given_to g WHERE g.own_table <> 'id_gen_managed.given_to'::regclass) THEN
            PERFORM id_gen_managed.revoke_defaults(ARRAY(SELECT r.object FROM id_gen_managed.restricted() r WHERE r.kind = 'SCHEMA'));
        END IF;
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_managed.close_schema() IS
    'closes the schema and, after a restore, its objects to other roles; raises an error if another role has code there';

DO $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RETURN; -- not in one transaction, as was said
    END IF;
    PERFORM id_gen_managed.close_schema();
    IF to_regprocedure('id_gen_managed.is_moved()') IS NOT NULL THEN
        IF id_gen_managed.is_moved() THEN
            RAISE EXCEPTION 'this database has moved to the extension id_gen'
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = 'The script would replace the functions of the extension.',
                      HINT = 'To go back to the script first, choose a worker ID that no server, no shard and no other '
                             'database uses: SELECT id_gen_managed.use_script(worker_id => <worker ID>);';
        END IF;
    ELSIF EXISTS (SELECT FROM pg_extension WHERE extname = 'id_gen') THEN
        RAISE EXCEPTION 'the extension id_gen is installed in this database'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The extension provides everything in this script.',
                  HINT = 'If no table uses it: DROP EXTENSION id_gen;';
    END IF;
END $$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Tables
-- ---------------------------------------------------------------------------------------------------------------------

-- One row.
CREATE TABLE IF NOT EXISTS id_gen_managed.installation (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    version         text NOT NULL,
    -- no snowflake that the extension generated in this database has a later time; infinity while it generates them, NULL if
    -- it never did
    extension_until timestamptz
);

-- Every number that this database has made IDs with. The one in use is the last.
CREATE TABLE IF NOT EXISTS id_gen_managed.configuration (
    datacenter_id integer NOT NULL,
    worker_id     integer NOT NULL,
    layout        text NOT NULL,
    lanes         integer NOT NULL,
    max_lead      interval NOT NULL,
    in_use        boolean NOT NULL,
    -- no ID of this number has this time or a later one; NULL while it is in use
    used_until    timestamptz,
    PRIMARY KEY (datacenter_id, worker_id)
);
CREATE UNIQUE INDEX IF NOT EXISTS one_configuration_in_use ON id_gen_managed.configuration (in_use) WHERE in_use;

-- What the number in use was given to: a copy of the database is another. After a dump nothing of this is so any more;
-- after pg_upgrade, all but the system identifier is. Some services do not show that, and two databases that were restored
-- on servers of their own can have one number.
CREATE TABLE IF NOT EXISTS id_gen_managed.given_to (
    one               boolean PRIMARY KEY DEFAULT true CHECK (one),
    database          oid,
    system_identifier bigint,
    -- the transaction that wrote the row of the number in use
    written_by        xid,
    -- this table: after a restore into the same database it has another OID
    own_table         oid
);

-- Which start of which server moved the lanes last.
CREATE SEQUENCE IF NOT EXISTS id_gen_managed.incarnation MINVALUE 0 START 0;

DO $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RETURN; -- not in one transaction, as was said
    END IF;
    INSERT INTO id_gen_managed.installation (version) VALUES ('0.1.0')
        ON CONFLICT (one) DO UPDATE SET version = excluded.version;
END $$;

-- A publication FOR ALL TABLES has these tables too, but their rows are those of one database. A subscriber keeps its own.
CREATE OR REPLACE FUNCTION id_gen_managed.keep_own_rows() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('session_replication_role') = 'replica' THEN
        RETURN NULL;
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
COMMENT ON FUNCTION id_gen_managed.keep_own_rows() IS 'discards rows that logical replication brings from another database';

DO $$
DECLARE
    state regclass;
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RETURN; -- not in one transaction, as was said
    END IF;
    FOREACH state IN ARRAY '{id_gen_managed.installation,id_gen_managed.configuration,id_gen_managed.given_to}'::regclass[] LOOP
        EXECUTE format('CREATE OR REPLACE TRIGGER keep_own_rows BEFORE INSERT OR UPDATE OR DELETE ON %s '
                       'FOR EACH ROW EXECUTE FUNCTION id_gen_managed.keep_own_rows()', state);
        EXECUTE format('ALTER TABLE %s ENABLE REPLICA TRIGGER keep_own_rows', state);
    END LOOP;
END $$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Layouts
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION id_gen_managed.presets(OUT name text, OUT about text, OUT layout text)
    RETURNS SETOF record LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    SELECT * FROM (VALUES
        ('default', '1,024 nodes, 4,096 IDs a millisecond', 'epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12'),
        ('twitter', 'Twitter and X', 'epoch=2010-11-04T01:42:54.657Z tick=1ms time:41 datacenter:5 worker:5 sequence:12'),
        ('discord', 'Discord', 'epoch=2015-01-01 tick=1ms unsigned time:42 worker:5 datacenter:5 sequence:12'),
        ('instagram', 'Instagram', 'epoch=2011-08-24T21:07:01.721Z tick=1ms unsigned time:41 worker:13 sequence:10'),
        ('sonyflake', 'Sony''s Sonyflake', 'epoch=2014-09-01 tick=10ms time:39 sequence:8 worker:16'),
        ('baidu', 'Baidu''s uid-generator', 'epoch=2016-05-19T16:00:00Z tick=1s time:28 worker:22 sequence:13'),
        ('leaf', 'Meituan''s Leaf', 'epoch=2010-11-04T01:42:54.657Z tick=1ms time:41 worker:10 sequence:12'),
        ('pgedge', 'pgEdge''s snowflake', 'epoch=2023-01-01 tick=1ms time:41 worker:10 sequence:12'),
        ('wide', '64 nodes, 65,536 IDs a millisecond', 'epoch=2024-01-01 tick=1ms time:41 worker:6 sequence:16'),
        ('js', 'JavaScript-safe: 53 bits, 32 nodes', 'epoch=2024-01-01 tick=10ms time:38 worker:5 sequence:10')
    ) AS preset (name, about, layout);
END;
COMMENT ON FUNCTION id_gen_managed.presets() IS 'the layouts known by name';

CREATE OR REPLACE FUNCTION id_gen_managed.refuse_layout(fact text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'invalid layout'
        USING ERRCODE = 'invalid_parameter_value', DETAIL = upper(left(fact, 1)) || substr(fact, 2) || '.',
              HINT = 'For example: "epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12"';
END $$;
COMMENT ON FUNCTION id_gen_managed.refuse_layout(text) IS 'raises the error for an invalid layout text';

-- Bits and shifts of a field that the layout lacks are 0.
CREATE OR REPLACE FUNCTION id_gen_managed.layout_of(
        layout text,
        OUT epoch_ms bigint, OUT tick_ms bigint, OUT is_unsigned boolean, OUT total_bits integer,
        OUT time_bits integer, OUT time_shift integer, OUT datacenter_bits integer, OUT datacenter_shift integer,
        OUT worker_bits integer, OUT worker_shift integer, OUT sequence_bits integer, OUT sequence_shift integer)
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- What PostgreSQL and RFC 3339 both read; the library's other spellings of a time are not read here.
    utc_time CONSTANT text := '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?'
                              '(Z|[+-][0-9]{2}(:?[0-9]{2})?)$';
    named bigint[];
    words text[];
    word text;
    value text;
    width numeric;
    fields text[] := '{}';
    widths integer[] := '{}';
    most integer;
BEGIN
    -- Most calls name a layout, which takes no text apart: its figures are the columns of the result, in their order.
    named := CASE btrim(layout, E' \t\n\f\r')
        WHEN 'default' THEN '{1704067200000, 1, 0, 63, 41, 22, 5, 17, 5, 12, 12, 0}'::bigint[]
        WHEN 'twitter' THEN '{1288834974657, 1, 0, 63, 41, 22, 5, 17, 5, 12, 12, 0}'
        WHEN 'discord' THEN '{1420070400000, 1, 1, 64, 42, 22, 5, 12, 5, 17, 12, 0}'
        WHEN 'instagram' THEN '{1314220021721, 1, 1, 64, 41, 23, 0, 0, 13, 10, 10, 0}'
        WHEN 'sonyflake' THEN '{1409529600000, 10, 0, 63, 39, 24, 0, 0, 16, 0, 8, 16}'
        WHEN 'baidu' THEN '{1463673600000, 1000, 0, 63, 28, 35, 0, 0, 22, 13, 13, 0}'
        WHEN 'leaf' THEN '{1288834974657, 1, 0, 63, 41, 22, 0, 0, 10, 12, 12, 0}'
        WHEN 'pgedge' THEN '{1672531200000, 1, 0, 63, 41, 22, 0, 0, 10, 12, 12, 0}'
        WHEN 'wide' THEN '{1704067200000, 1, 0, 63, 41, 22, 0, 0, 6, 16, 16, 0}'
        WHEN 'js' THEN '{1704067200000, 10, 0, 53, 38, 15, 0, 0, 5, 10, 10, 0}'
    END;
    IF named IS NOT NULL THEN
        epoch_ms := named[1]; tick_ms := named[2]; is_unsigned := named[3] = 1; total_bits := named[4];
        time_bits := named[5]; time_shift := named[6]; datacenter_bits := named[7]; datacenter_shift := named[8];
        worker_bits := named[9]; worker_shift := named[10]; sequence_bits := named[11]; sequence_shift := named[12];
        RETURN;
    END IF;
    words := array_remove(regexp_split_to_array(layout, E'[ \t\n\f\r]+'), '');
    IF cardinality(words) = 1 AND words[1] !~ '[:=]' THEN
        RAISE EXCEPTION 'there is no layout named "%"', words[1]
            USING ERRCODE = 'undefined_object',
                  HINT = format('The named layouts are %s.',
                                (SELECT string_agg(p.name, ', ') FROM id_gen_managed.presets() p));
    END IF;

    FOREACH word IN ARRAY words LOOP
        IF starts_with(word, 'epoch=') THEN
            value := substr(word, 7);
            IF epoch_ms IS NOT NULL THEN
                PERFORM id_gen_managed.refuse_layout('epoch is given twice');
            END IF;
            BEGIN
                IF value ~ '^[+-]?[0-9]+ms$' THEN
                    epoch_ms := left(value, -2)::bigint;
                ELSIF value ~ utc_time THEN
                    -- Nothing of it depends on the session: the offset is in the text.
                    epoch_ms := trunc(extract(epoch FROM value::timestamptz) * 1000);
                ELSIF value ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' THEN
                    epoch_ms := extract(epoch FROM (value || 'T00:00:00Z')::timestamptz) * 1000;
                END IF;
            EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format OR numeric_value_out_of_range THEN
                epoch_ms := NULL;
            END;
            IF epoch_ms IS NULL THEN
                PERFORM id_gen_managed.refuse_layout(
                    format('epoch "%s" is not a date, a UTC time or a number of milliseconds', value));
            END IF;
        ELSIF starts_with(word, 'tick=') THEN
            value := substr(word, 6);
            IF tick_ms IS NOT NULL THEN
                PERFORM id_gen_managed.refuse_layout('tick is given twice');
            END IF;
            IF value ~ '^[+]?[0-9]{1,100}m?s$' THEN
                width := rtrim(value, 'ms')::numeric * CASE WHEN value LIKE '%ms' THEN 1 ELSE 1000 END;
                IF width BETWEEN 1 AND 3600000 THEN
                    tick_ms := width;
                END IF;
            END IF;
            IF tick_ms IS NULL THEN
                PERFORM id_gen_managed.refuse_layout(
                    format('tick "%s" is not a whole number of ms or s between 1ms and 3600s', value));
            END IF;
        ELSIF word = 'unsigned' THEN
            IF is_unsigned THEN
                PERFORM id_gen_managed.refuse_layout('unsigned is given twice');
            END IF;
            is_unsigned := true;
        ELSE
            IF word !~ '^(time|datacenter|worker|sequence):' THEN
                PERFORM id_gen_managed.refuse_layout(format('"%s" is not a valid part of a layout', word));
            END IF;
            value := substr(word, strpos(word, ':') + 1);
            IF value !~ '^[+]?[0-9]{1,100}$' OR value::numeric > 4294967295 THEN
                PERFORM id_gen_managed.refuse_layout(
                    format('width "%s" of field "%s" is not a whole number', value, split_part(word, ':', 1)));
            END IF;
            fields := fields || split_part(word, ':', 1);
            -- As wide as makes no difference: wider ones are refused below.
            widths := widths || least(value::numeric, 1000)::integer;
        END IF;
    END LOOP;

    tick_ms := coalesce(tick_ms, 1);
    is_unsigned := coalesce(is_unsigned, false);
    most := CASE WHEN is_unsigned THEN 64 ELSE 63 END;
    total_bits := 0;
    time_bits := 0; time_shift := 0;
    datacenter_bits := 0; datacenter_shift := 0;
    worker_bits := 0; worker_shift := 0;
    sequence_bits := 0; sequence_shift := 0;
    IF epoch_ms IS NULL THEN
        PERFORM id_gen_managed.refuse_layout('epoch is missing');
    END IF;
    FOR i IN REVERSE cardinality(fields)..1 LOOP
        IF widths[i] = 0 THEN
            PERFORM id_gen_managed.refuse_layout(format('field "%s" is zero bits wide', fields[i]));
        ELSIF fields[i] = 'time' AND widths[i] >= most OR fields[i] <> 'time' AND widths[i] > 31 THEN
            PERFORM id_gen_managed.refuse_layout(format('field "%s" is %s bits wide, more than %s', fields[i], widths[i],
                                                        CASE fields[i] WHEN 'time' THEN most - 1 ELSE 31 END));
        ELSIF fields[i] = ANY (fields[i + 1:]) THEN
            PERFORM id_gen_managed.refuse_layout(format('%s is given twice', fields[i]));
        END IF;
        CASE fields[i]
            WHEN 'time' THEN time_bits := widths[i]; time_shift := total_bits;
            WHEN 'datacenter' THEN datacenter_bits := widths[i]; datacenter_shift := total_bits;
            WHEN 'worker' THEN worker_bits := widths[i]; worker_shift := total_bits;
            WHEN 'sequence' THEN sequence_bits := widths[i]; sequence_shift := total_bits;
        END CASE;
        total_bits := total_bits + widths[i];
    END LOOP;
    IF time_bits = 0 OR sequence_bits = 0 THEN
        PERFORM id_gen_managed.refuse_layout(
            format('field "%s" is missing', CASE time_bits WHEN 0 THEN 'time' ELSE 'sequence' END));
    ELSIF fields[1] <> 'time' THEN
        PERFORM id_gen_managed.refuse_layout('"time" must be the first field, so that IDs sort by time');
    ELSIF total_bits > most THEN
        PERFORM id_gen_managed.refuse_layout(format('the fields add up to %s bits, more than %s', total_bits, most));
    ELSIF epoch_ms + 2::numeric ^ time_bits * tick_ms > 253402207200999 OR epoch_ms < -377705023201000 THEN
        PERFORM id_gen_managed.refuse_layout('the time field extends beyond the year 9999');
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_managed.layout_of(text) IS 'a layout by name or text, taken apart';

-- The database's own layout; `configure` replaces it.
DO $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RETURN; -- not in one transaction, as was said
    END IF;
    IF to_regprocedure('id_gen_managed.layout()') IS NULL THEN
        CREATE FUNCTION id_gen_managed.layout() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 'default'::text;
        COMMENT ON FUNCTION id_gen_managed.layout() IS 'the layout of this database''s snowflakes';
    END IF;
END $$;

-- Times: timestamps in microseconds and back, exactly, whatever the session's time zone. Layouts end by the year 9999,
-- whose microseconds no double precision holds: so whole hours first, then the rest.

CREATE OR REPLACE FUNCTION id_gen_managed.time_of_ms(unix_ms bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (timestamp 'epoch' + interval '1 hour' * (unix_ms / 3600000)::double precision
                              + interval '1 millisecond' * (unix_ms % 3600000)::double precision) AT TIME ZONE 'UTC';
COMMENT ON FUNCTION id_gen_managed.time_of_ms(bigint) IS 'a Unix time in milliseconds';

CREATE OR REPLACE FUNCTION id_gen_managed.text_of_ms(unix_ms numeric) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE WHEN unix_ms BETWEEN -62135596800000 AND 253402207200999
                THEN regexp_replace(to_char(id_gen_managed.time_of_ms(unix_ms::bigint) AT TIME ZONE 'UTC',
                                            'YYYY-MM-DD"T"HH24:MI:SS.MS'), '[.]?0*$', '') || 'Z'
                ELSE unix_ms || 'ms' END;
COMMENT ON FUNCTION id_gen_managed.text_of_ms(numeric) IS 'a Unix time in milliseconds, as errors show it';

CREATE OR REPLACE FUNCTION id_gen_managed.tick_at(ts timestamptz, layout text, l record) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    since_us numeric;
BEGIN
    IF NOT isfinite(ts) THEN
        RAISE EXCEPTION 'timestamp must be finite'
            USING ERRCODE = 'datetime_field_overflow',
                  HINT = 'Use a timestamp within the range of the layout, or omit the condition.';
    END IF;
    since_us := extract(epoch FROM ts) * 1000000 - l.epoch_ms * 1000;
    IF since_us < 0 OR since_us >= 2::numeric ^ l.time_bits * l.tick_ms * 1000 THEN
        RAISE EXCEPTION 'timestamp is out of range for the layout'
            USING ERRCODE = 'datetime_field_overflow',
                  DETAIL = format('Layout "%s" has timestamps from %s to %s.', layout, id_gen_managed.text_of_ms(l.epoch_ms::numeric),
                                  id_gen_managed.text_of_ms(l.epoch_ms + 2::numeric ^ l.time_bits * l.tick_ms - 1)),
                  HINT = 'Use a timestamp in that range, or another layout.';
    END IF;
    RETURN div(since_us, l.tick_ms * 1000);
END $$;
COMMENT ON FUNCTION id_gen_managed.tick_at(timestamptz, text, record) IS 'the tick that holds an instant';

-- The tick of an ID. Its bits above the layout's must not be set.
CREATE OR REPLACE FUNCTION id_gen_managed.tick_in(id bigint, layout text, l record) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF l.total_bits < 64 AND (id & ((-1)::bigint << l.total_bits)) <> 0 THEN
        RAISE EXCEPTION 'snowflake % is out of range for the layout', id
            USING ERRCODE = 'numeric_value_out_of_range',
                  DETAIL = format('Layout "%s" has %s bits: 0 to %s.', layout, l.total_bits,
                                  trunc(2::numeric ^ l.total_bits - 1)),
                  HINT = 'Pass an ID of this layout, or the layout that generated the ID. To list the layouts: SELECT name, layout FROM snowflake_layouts();';
    END IF;
    RETURN (id >> l.time_shift) & ~((-1)::bigint << l.time_bits);
END $$;
COMMENT ON FUNCTION id_gen_managed.tick_in(bigint, text, record) IS 'the tick of a snowflake';

CREATE OR REPLACE FUNCTION id_gen_managed.check_number(field text, value integer, bits integer, layout text)
    RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF value < 0 OR value >= 1::bigint << bits THEN
        RAISE EXCEPTION '% % is out of range', field, value
            USING ERRCODE = 'numeric_value_out_of_range',
                  DETAIL = CASE bits WHEN 0 THEN format('Layout "%s" has no such field, so the value must be 0.', layout)
                           ELSE format('Layout "%s" allows 0 to %s.', layout, (1::bigint << bits) - 1) END,
                  HINT = CASE bits WHEN 0 THEN 'Pass 0, or another layout.'
                         ELSE 'Pass a number in that range, or another layout.' END;
    END IF;
    RETURN value;
END $$;
COMMENT ON FUNCTION id_gen_managed.check_number(text, integer, integer, text) IS 'a number that fits its field';

-- ---------------------------------------------------------------------------------------------------------------------
-- Taking snowflakes apart, and building them: what users call, by the names and with the results of the library's
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l CONSTANT record := id_gen_managed.layout_of(layout);
BEGIN
    RETURN id_gen_managed.time_of_ms(l.epoch_ms + id_gen_managed.tick_in(id, layout, l) * l.tick_ms);
END $$;
COMMENT ON FUNCTION id_gen_managed.snowflake_timestamp(bigint, text) IS
    'creation time of a snowflake, to one tick, in the given layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_timestamp(id bigint) RETURNS timestamptz
    LANGUAGE sql STABLE STRICT PARALLEL SAFE RETURN id_gen_managed.snowflake_timestamp(id, id_gen_managed.layout());
COMMENT ON FUNCTION id_gen_managed.snowflake_timestamp(bigint) IS
    'creation time of a snowflake, to one tick, in this database''s layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_parse(
        id bigint, layout text,
        OUT created_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer)
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l CONSTANT record := id_gen_managed.layout_of(layout);
BEGIN
    created_at := id_gen_managed.time_of_ms(l.epoch_ms + id_gen_managed.tick_in(id, layout, l) * l.tick_ms);
    datacenter_id := (id >> l.datacenter_shift) & ((1::bigint << l.datacenter_bits) - 1);
    worker_id := (id >> l.worker_shift) & ((1::bigint << l.worker_bits) - 1);
    sequence := (id >> l.sequence_shift) & ((1::bigint << l.sequence_bits) - 1);
END $$;
COMMENT ON FUNCTION id_gen_managed.snowflake_parse(bigint, text) IS
    'fields of a snowflake, in the given layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_parse(
        id bigint,
        OUT created_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer)
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT * FROM id_gen_managed.snowflake_parse(id, id_gen_managed.layout());
END;
COMMENT ON FUNCTION id_gen_managed.snowflake_parse(bigint) IS 'fields of a snowflake, in this database''s layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_worker_id(id bigint, layout text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (id_gen_managed.snowflake_parse(id, layout)).worker_id;
END $$;
COMMENT ON FUNCTION id_gen_managed.snowflake_worker_id(bigint, text) IS
    'worker ID in a snowflake, in the given layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_worker_id(id bigint) RETURNS integer
    LANGUAGE sql STABLE STRICT PARALLEL SAFE RETURN id_gen_managed.snowflake_worker_id(id, id_gen_managed.layout());
COMMENT ON FUNCTION id_gen_managed.snowflake_worker_id(bigint) IS
    'worker ID in a snowflake, in this database''s layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_datacenter_id(id bigint, layout text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (id_gen_managed.snowflake_parse(id, layout)).datacenter_id;
END $$;
COMMENT ON FUNCTION id_gen_managed.snowflake_datacenter_id(bigint, text) IS
    'datacenter ID in a snowflake, in the given layout; 0 if the layout has none';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_datacenter_id(id bigint) RETURNS integer
    LANGUAGE sql STABLE STRICT PARALLEL SAFE RETURN id_gen_managed.snowflake_datacenter_id(id, id_gen_managed.layout());
COMMENT ON FUNCTION id_gen_managed.snowflake_datacenter_id(bigint) IS
    'datacenter ID in a snowflake, in this database''s layout; 0 if the layout has none';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_min(ts timestamptz, layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l CONSTANT record := id_gen_managed.layout_of(layout);
BEGIN
    RETURN id_gen_managed.tick_at(ts, layout, l) << l.time_shift;
END $$;
COMMENT ON FUNCTION id_gen_managed.snowflake_min(timestamptz, text) IS
    'smallest snowflake of the tick that contains ts, in the given layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_min(ts timestamptz) RETURNS bigint
    LANGUAGE sql STABLE STRICT PARALLEL SAFE RETURN id_gen_managed.snowflake_min(ts, id_gen_managed.layout());
COMMENT ON FUNCTION id_gen_managed.snowflake_min(timestamptz) IS
    'smallest snowflake of the tick that contains ts, in this database''s layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_max(ts timestamptz, layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l CONSTANT record := id_gen_managed.layout_of(layout);
BEGIN
    RETURN (id_gen_managed.tick_at(ts, layout, l) << l.time_shift) | ((1::bigint << l.time_shift) - 1);
END $$;
COMMENT ON FUNCTION id_gen_managed.snowflake_max(timestamptz, text) IS
    'largest snowflake of the tick that contains ts, in the given layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_max(ts timestamptz) RETURNS bigint
    LANGUAGE sql STABLE STRICT PARALLEL SAFE RETURN id_gen_managed.snowflake_max(ts, id_gen_managed.layout());
COMMENT ON FUNCTION id_gen_managed.snowflake_max(timestamptz) IS
    'largest snowflake of the tick that contains ts, in this database''s layout';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_make(
        ts timestamptz, datacenter_id integer, worker_id integer, sequence integer, layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l CONSTANT record := id_gen_managed.layout_of(layout);
BEGIN
    RETURN (id_gen_managed.tick_at(ts, layout, l) << l.time_shift)
         | (id_gen_managed.check_number('datacenter', datacenter_id, l.datacenter_bits, layout) << l.datacenter_shift)
         | (id_gen_managed.check_number('worker', worker_id, l.worker_bits, layout) << l.worker_shift)
         | (id_gen_managed.check_number('sequence', sequence, l.sequence_bits, layout) << l.sequence_shift);
END $$;
COMMENT ON FUNCTION id_gen_managed.snowflake_make(timestamptz, integer, integer, integer, text) IS
    'snowflake with the given fields, in the given layout (tests, backfills)';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_make(
        ts timestamptz, datacenter_id integer, worker_id integer, sequence integer) RETURNS bigint
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN id_gen_managed.snowflake_make(ts, datacenter_id, worker_id, sequence, id_gen_managed.layout());
COMMENT ON FUNCTION id_gen_managed.snowflake_make(timestamptz, integer, integer, integer) IS
    'snowflake with the given fields, in this database''s layout (tests, backfills)';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_layouts()
    RETURNS TABLE (
        name text, about text, in_use boolean, layout text, epoch timestamptz, tick interval,
        time_bits integer, datacenter_bits integer, worker_bits integer, sequence_bits integer,
        nodes bigint, ids_per_second bigint, exhausted_at timestamptz)
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT known.name, known.about, known.name = id_gen_managed.layout() OR known.layout = id_gen_managed.layout(),
           known.layout, id_gen_managed.time_of_ms(l.epoch_ms), interval '1 millisecond' * l.tick_ms,
           l.time_bits, l.datacenter_bits, l.worker_bits, l.sequence_bits,
           1::bigint << (l.datacenter_bits + l.worker_bits), (1::bigint << l.sequence_bits) * 1000 / l.tick_ms,
           -- A layout of 64 bits generates in its first half alone, where a bigint is positive.
           id_gen_managed.time_of_ms(
               l.epoch_ms + (1::bigint << (l.time_bits - CASE WHEN l.total_bits > 63 THEN 1 ELSE 0 END)) * l.tick_ms)
      FROM (SELECT p.name, p.about, p.layout FROM id_gen_managed.presets() p
             UNION ALL
            SELECT 'custom', 'this server''s id_gen.layout', id_gen_managed.layout()
             WHERE NOT EXISTS (SELECT FROM id_gen_managed.presets() p
                                WHERE id_gen_managed.layout() IN (p.name, p.layout))) AS known
     CROSS JOIN id_gen_managed.layout_of(known.layout) AS l;
END;
COMMENT ON FUNCTION id_gen_managed.snowflake_layouts() IS
    'named layouts and this database''s own: fields, nodes, rate and end of time';

-- ---------------------------------------------------------------------------------------------------------------------
-- Making snowflakes
-- ---------------------------------------------------------------------------------------------------------------------

-- The lanes of one session after the other are locked under this number. Two are no lanes: -1 locks what moves them all,
-- and -2 is the gate, which every transaction that makes IDs shares until its end.
CREATE OR REPLACE FUNCTION id_gen_managed.lock_class() RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 1768189287;
COMMENT ON FUNCTION id_gen_managed.lock_class() IS 'the first number of the advisory locks';

-- A server's start, a crash it recovers from (which resets its statistics), and a promotion (which begins a timeline)
-- each make this another number. The timeline is in its upper bits, from bit 43 on.
CREATE OR REPLACE FUNCTION id_gen_managed.incarnation() RETURNS bigint
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    timeline bigint := 0;
BEGIN
    BEGIN
        timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
    EXCEPTION WHEN feature_not_supported OR insufficient_privilege OR undefined_function THEN
        -- A service whose servers share their storage: what took over has all of the log, and was started for it.
        NULL;
    END;
    RETURN ((timeline & 1048575) << 43)
         | (hashtextextended(concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
                                       extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())), 0) & 8796093022207);
END $$;
COMMENT ON FUNCTION id_gen_managed.incarnation() IS 'a number for this start of this server';

CREATE OR REPLACE FUNCTION id_gen_managed.lane_sequences() RETURNS regclass[]
    LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(array_agg(c.oid::regclass ORDER BY substr(c.relname, 6)::integer), '{}')
      FROM pg_catalog.pg_class c
     WHERE c.relnamespace = 'id_gen_managed'::regnamespace AND c.relkind = 'S' AND c.relname ~ '^lane_[0-9]+$';
END;
COMMENT ON FUNCTION id_gen_managed.lane_sequences() IS 'the sequences of the lanes, in their order';

-- After an error: a call that was cancelled may have been given a lock first, and knows nothing of it. It is not
-- cancelled again before it has given all back. But PostgreSQL signals each cancel twice, and the second signal can come
-- just before this is called: so who calls it after an error has another handler outside, which calls it again. A lock of a
-- transaction would need none, but only an aborted subtransaction gives that back; each call would pay for all deferred
-- triggers of its transaction.
CREATE OR REPLACE FUNCTION id_gen_managed.leave_lanes() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOOP
        BEGIN
            -- The gate's lock is its transaction's.
            PERFORM pg_advisory_unlock(classid::integer, objid::integer)
               FROM pg_locks
              WHERE locktype = 'advisory'
                AND database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                AND (classid, objsubid) = (id_gen_managed.lock_class()::oid, 2) AND objid::integer <> -2
                AND pid = pg_backend_pid() AND granted;
            RETURN;
        EXCEPTION WHEN query_canceled THEN
            NULL;
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_managed.leave_lanes() IS 'gives back the lanes that this session has';

CREATE OR REPLACE FUNCTION id_gen_managed.wait_for_lane(lane integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
    RETURN pg_advisory_lock(id_gen_managed.lock_class(), lane) IS NOT NULL;
EXCEPTION WHEN query_canceled OR OTHERS THEN
    PERFORM id_gen_managed.leave_lanes();
    IF SQLSTATE <> '55P03' THEN
        RAISE;
    END IF;
    RAISE EXCEPTION 'all lanes are in use'
        USING ERRCODE = 'lock_not_available',
              DETAIL = format('A session has held lane %s for 5 s; a normal call holds it for microseconds.', lane),
              HINT = format('Terminate that session: SELECT pg_terminate_backend(pid) FROM pg_locks '
                            'WHERE locktype = ''advisory'' AND (classid, objid) = (%s, %s) AND granted AND database = '
                            '(SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid();',
                            id_gen_managed.lock_class(), lane);
END $$;
COMMENT ON FUNCTION id_gen_managed.wait_for_lane(integer) IS 'takes a lane that another session holds, within 5 s';

-- Moves every lane to a position at the least. The caller holds lock -1, and gives all back after an error.
CREATE OR REPLACE FUNCTION id_gen_managed.raise_lanes(least_position bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sequences CONSTANT regclass[] := id_gen_managed.lane_sequences();
BEGIN
    FOR lane IN 0..cardinality(sequences) - 1 LOOP
        PERFORM pg_try_advisory_lock(id_gen_managed.lock_class(), lane) OR id_gen_managed.wait_for_lane(lane);
        IF pg_sequence_last_value(sequences[lane + 1]) < least_position - 1 THEN
            PERFORM setval(sequences[lane + 1], least_position - 1);
        END IF;
        PERFORM pg_advisory_unlock(id_gen_managed.lock_class(), lane);
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_managed.raise_lanes(bigint) IS 'moves all lanes to a position at the least';

-- The first position of the tick after a time; of the layout's first tick, if that is later.
CREATE OR REPLACE FUNCTION id_gen_managed.unused_position(own id_gen_managed.configuration, ts timestamptz) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l CONSTANT record := id_gen_managed.layout_of(own.layout);
BEGIN
    RETURN greatest(0, div(ceil(extract(epoch FROM ts) * 1000) - l.epoch_ms, l.tick_ms) + 1)::bigint
        * ((1::bigint << l.sequence_bits) / own.lanes);
END $$;
COMMENT ON FUNCTION id_gen_managed.unused_position(id_gen_managed.configuration, timestamptz) IS
    'the first position of the tick after a time';

-- If no session has made a snowflake since this server started, all lanes go past what may have been made before.
CREATE OR REPLACE FUNCTION id_gen_managed.renew_lanes(own id_gen_managed.configuration) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    present CONSTANT bigint := id_gen_managed.incarnation();
BEGIN
    IF pg_sequence_last_value('id_gen_managed.incarnation') = present THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM pg_try_advisory_lock(id_gen_managed.lock_class(), -1) OR id_gen_managed.wait_for_lane(-1);
        -- Another session may have done it meanwhile.
        IF pg_sequence_last_value('id_gen_managed.incarnation') IS DISTINCT FROM present THEN
            PERFORM id_gen_managed.raise_lanes(id_gen_managed.unused_position(
                own, clock_timestamp() + own.max_lead
                -- On another timeline another server made them, whose clock may have been ahead of this one's.
                + CASE WHEN pg_sequence_last_value('id_gen_managed.incarnation') >> 43 = present >> 43
                       THEN interval '0' ELSE interval '3 s' END));
            PERFORM setval('id_gen_managed.incarnation', present);
        END IF;
        PERFORM pg_advisory_unlock(id_gen_managed.lock_class(), -1);
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        PERFORM id_gen_managed.leave_lanes();
        RAISE;
    END;
EXCEPTION WHEN query_canceled OR OTHERS THEN
    PERFORM id_gen_managed.leave_lanes();
    RAISE;
END $$;
COMMENT ON FUNCTION id_gen_managed.renew_lanes(id_gen_managed.configuration) IS
    'moves all lanes past what was made before this start of the server';

CREATE OR REPLACE FUNCTION id_gen_managed.system_identifier() RETURNS bigint
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT c.system_identifier FROM pg_control_system() c);
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION id_gen_managed.system_identifier() IS 'the number of this database cluster; NULL where it is not shown';

-- What the number in use would be given to now.
CREATE OR REPLACE FUNCTION id_gen_managed.present() RETURNS id_gen_managed.given_to
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT true, d.oid, id_gen_managed.system_identifier(), n.xmin, 'id_gen_managed.given_to'::regclass::oid
      FROM id_gen_managed.configuration n, pg_database d
     WHERE n.in_use AND d.datname = current_database()
$$;
COMMENT ON FUNCTION id_gen_managed.present() IS 'which database this is';

-- Whether the number in use was given to another database than this one, or to this one before it was restored from a dump.
CREATE OR REPLACE FUNCTION id_gen_managed.is_copy() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (given_to.database, given_to.own_table) IS DISTINCT FROM (present.database, present.own_table)
        OR (given_to.system_identifier = present.system_identifier) IS NOT true
           AND given_to.written_by IS DISTINCT FROM present.written_by
      FROM id_gen_managed.present() present LEFT JOIN id_gen_managed.given_to ON true
$$;
COMMENT ON FUNCTION id_gen_managed.is_copy() IS
    'whether the number in use was given to another database, or to this one before a restore';

-- Only the administrator knows which worker IDs are in use elsewhere, so the command leaves the number out: pasted as it
-- is, it fails. The fields that the layout has no room for stay 0.
CREATE OR REPLACE FUNCTION id_gen_managed.number_hint(
        layout text, command text, unused_by text)
    RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l CONSTANT record := id_gen_managed.layout_of(layout);
    workers CONSTANT bigint := 1::bigint << l.worker_bits;
    datacenters CONSTANT bigint := 1::bigint << l.datacenter_bits;
BEGIN
    IF workers > 1 THEN
        RETURN format('a worker ID from 0 to %s that %s: SELECT id_gen_managed.%s(worker_id => <worker ID>);',
                      workers - 1, unused_by, command);
    ELSIF datacenters > 1 THEN
        RETURN format('a datacenter ID from 0 to %s that %s: '
                      'SELECT id_gen_managed.%s(worker_id => 0, datacenter_id => <datacenter ID>);',
                      datacenters - 1, unused_by, command);
    END IF;
    RETURN format('a layout with a worker field, since layout "%s" has none, and a worker ID that %s: '
                  'SELECT id_gen_managed.configure(worker_id => <worker ID>, layout => <layout>);', layout, unused_by);
END $$;
COMMENT ON FUNCTION id_gen_managed.number_hint(text, text, text) IS
    'the range of worker IDs and the command that sets one, for the hints of errors';

CREATE OR REPLACE FUNCTION id_gen_managed.configure_hint(layout text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id_gen_managed.number_hint(layout, 'configure', 'no other database or server uses');
COMMENT ON FUNCTION id_gen_managed.configure_hint(text) IS 'the same for a database that has not moved to the extension';

-- The name of the extension's schema as the catalog has it. The text of a regnamespace is quoted where that is needed, and
-- with quote_all_identifiers everywhere.
CREATE OR REPLACE FUNCTION id_gen_managed.extension_schema() RETURNS name
    LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
     WHERE e.extname = 'id_gen';
END;
COMMENT ON FUNCTION id_gen_managed.extension_schema() IS 'the schema of the extension id_gen; NULL where that is not installed';

CREATE OR REPLACE FUNCTION id_gen_managed.refuse_without_number() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'this database has no worker ID'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Each database needs a unique worker ID; otherwise two databases could generate the same ID.',
              HINT = 'Choose ' || id_gen_managed.configure_hint(id_gen_managed.layout());
END $$;
COMMENT ON FUNCTION id_gen_managed.refuse_without_number() IS 'raises the error for a database without a worker ID';

-- What a session does before its first snowflake, and again when it has forgotten that, as after RESET ALL. Returns what
-- it shall remember, in a setting: its lane, in the lowest six bits.
CREATE OR REPLACE FUNCTION id_gen_managed.begin_session() RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own id_gen_managed.configuration%ROWTYPE;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'cannot generate snowflakes during recovery'
            USING ERRCODE = 'read_only_sql_transaction',
                  DETAIL = 'This server is a standby; only the primary generates IDs with its worker ID.',
                  HINT = 'Run the statement on the primary. The decoding functions also work on a standby.';
    END IF;
    SELECT * INTO own FROM id_gen_managed.configuration WHERE in_use;
    IF NOT FOUND THEN
        -- The functions are those of a number, and the tables are empty: so a dump without rows leaves them.
        PERFORM id_gen_managed.refuse_without_number();
    END IF;
    IF id_gen_managed.is_copy() THEN
        -- The lanes are those of now, whatever this transaction's snapshot shows.
        IF NOT EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('id_gen_managed.lane_0')) THEN
            RAISE EXCEPTION 'the worker ID was changed during this transaction'
                USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END IF;
        RAISE EXCEPTION 'this database is a copy with the worker ID of its original'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('If both databases use worker ID %s, they could generate the same snowflakes.',
                                  own.worker_id),
                  HINT = format('Choose %s Or set the same worker ID again, if no other database uses it now.',
                                id_gen_managed.configure_hint(own.layout));
    END IF;
    PERFORM id_gen_managed.renew_lanes(own);
    RETURN set_config('id_gen_managed.session', (pg_backend_pid() & 63)::text, false);
END $$;
COMMENT ON FUNCTION id_gen_managed.begin_session() IS 'what a session does before its first snowflake';

-- The one function that makes snowflakes, as `configure` fills it in: up to so many of one tick, of which it returns
-- the first; the others follow at equal distances.
CREATE OR REPLACE FUNCTION id_gen_managed.allocate_template() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN $template$
DECLARE
    sequences CONSTANT regclass[] := '{lane_sequences}'::regclass[];
    -- The lane that this session used last.
    session bigint := nullif(current_setting('id_gen_managed.session', true), '');
    -- True in the session's first call, else null.
    begins boolean;
    own_lane integer;
    lane integer;
    held boolean;
    waited_s double precision := 0;
    lead_s double precision;
    now_ms double precision;
    now_tick bigint;
    following bigint;
    place bigint;
    in_transaction boolean;
BEGIN
    -- While the number is changed, wait here, where nothing is held that the change waits for. Nothing is held: false.
    held := pg_advisory_xact_lock_shared({lock_class}, -2) IS NULL;
    -- Everybody may call this. Below 1 it would move the lane back.
    IF (count BETWEEN 1 AND {counts}) IS NOT true THEN
        IF count IS NULL OR count < 1 THEN
            RAISE EXCEPTION 'count must be greater than zero'
                USING ERRCODE = 'invalid_parameter_value', DETAIL = format('The count is %s.', coalesce(count::text, 'null')),
                      HINT = 'Request 1 or more: SELECT id_gen_managed.allocate(1);';
        END IF;
        count := {counts};
    END IF;
    IF session IS NULL THEN
        begins := true;
        session := id_gen_managed.begin_session();
    END IF;
    own_lane := session & {lane_mask};
    BEGIN
        LOOP
            BEGIN
                lane := own_lane;
                held := pg_try_advisory_lock({lock_class}, lane);
                IF NOT held THEN
                    -- Another session is in the midst of a call: go on beside it, in the first lane that is free.
                    FOR distance IN 1..{lane_mask} LOOP
                        lane := (own_lane + distance) & {lane_mask};
                        held := pg_try_advisory_lock({lock_class}, lane);
                        EXIT WHEN held;
                    END LOOP;
                    IF NOT held THEN
                        lane := own_lane;
                        held := id_gen_managed.wait_for_lane(lane);
                    END IF;
                END IF;
                now_ms := date_part('epoch', clock_timestamp()) * 1000 - {epoch_ms};
                now_tick := floor(now_ms / {tick_ms});
                following := pg_sequence_last_value(sequences[lane + 1]) + 1;
                -- Above what this session had from its own lane. That it had anything is also what tells that it has begun:
                -- everybody may set the setting, but no other role moves a lane, so that currval() fails.
                -- A tick begins at one of the lowest counts, so that not all IDs of a quiet server end in the same bits.
                place := greatest(following, CASE WHEN begins IS NULL THEN currval(sequences[own_lane + 1]) + 1 END,
                                  (now_tick << {count_bits}) | ((now_ms * 1000)::bigint & {spread_mask}));
                IF now_tick >= 0 AND place >> {count_bits} <= least(now_tick + {lead_ticks}, {last_tick}) THEN
                    -- A commit waits for the log if its transaction has written to it, which nextval() does for one value in
                    -- 33 alone: so it moves the lane only where setval() has moved one in the same transaction.
                    IF place = following AND count = 1 AND current_setting('id_gen_managed.logged', true) = '1' THEN
                        following := nextval(sequences[lane + 1]);
                    ELSE
                        in_transaction := pg_current_xact_id_if_assigned() IS NOT NULL;
                        following := setval(sequences[lane + 1], least(place + count - 1, place | {count_mask}));
                        IF in_transaction THEN
                            PERFORM set_config('id_gen_managed.logged', '1', true);
                        END IF;
                    END IF;
                    held := NOT pg_advisory_unlock({lock_class}, lane);
                    IF lane <> own_lane THEN
                        PERFORM set_config('id_gen_managed.session', lane::text, false);
                    END IF;
                    RETURN ((place >> {count_bits}) << {time_shift}) | {node_bits}
                         | ((((place & {count_mask}) << {lane_bits}) | lane) << {sequence_shift});
                END IF;
                held := NOT pg_advisory_unlock({lock_class}, lane);
            EXCEPTION WHEN query_canceled OR OTHERS THEN
                -- Also if `held` says nothing: a cancel can come between the lock and that.
                PERFORM id_gen_managed.leave_lanes();
                held := false;
                -- A sequence that is there no longer has no name, whatever this transaction's snapshot shows.
                IF sequences[lane + 1]::text ~ '^[0-9]+$' THEN
                    RAISE EXCEPTION 'the worker ID was changed during this statement'
                        USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
                END IF;
                IF begins OR SQLSTATE <> '55000' THEN
                    RAISE;
                END IF;
                -- Not one that has begun, or it has forgotten its lanes' values, as by DISCARD SEQUENCES.
                begins := true;
                own_lane := id_gen_managed.begin_session() & {lane_mask};
                CONTINUE;
            END;
            -- Seconds until the clock is near enough.
            lead_s := ((place >> {count_bits}) - now_tick - {lead_ticks}) * {tick_ms} / 1000.0;
            IF now_tick < 0 OR place >> {count_bits} > {last_tick} OR waited_s + lead_s > 1 THEN
                PERFORM id_gen_managed.refuse(place, now_tick);
            END IF;
            PERFORM pg_sleep(lead_s);
            waited_s := waited_s + lead_s;
        END LOOP;
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        -- The block inside gives its lane back, unless a second signal has ended that.
        IF held IS NOT false THEN
            PERFORM id_gen_managed.leave_lanes();
        END IF;
        RAISE;
    END;
END $template$::text;
COMMENT ON FUNCTION id_gen_managed.allocate_template() IS 'the text of allocate(), without the figures of this database';

-- Raises the error of a snowflake that cannot be made.
CREATE OR REPLACE FUNCTION id_gen_managed.refuse(place bigint, now_tick bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own CONSTANT id_gen_managed.configuration := (SELECT n FROM id_gen_managed.configuration n WHERE in_use);
    l CONSTANT record := id_gen_managed.layout_of(own.layout);
    ticks CONSTANT bigint := 1::bigint << (l.time_bits - CASE WHEN l.total_bits > 63 THEN 1 ELSE 0 END);
    tick CONSTANT bigint := place / ((1::bigint << l.sequence_bits) / own.lanes);
    lead_ms CONSTANT bigint := (tick - now_tick) * l.tick_ms;
    max_lead_ms CONSTANT bigint := extract(epoch FROM own.max_lead) * 1000;
BEGIN
    IF now_tick < 0 THEN
        RAISE EXCEPTION 'the clock shows a time before the layout''s epoch'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The layout starts at %s.', id_gen_managed.text_of_ms(l.epoch_ms::numeric)),
                  HINT = 'Correct the clock. If the current time is correct: SELECT id_gen_managed.configure(layout => ''default'');';
    ELSIF now_tick >= ticks THEN
        RAISE EXCEPTION 'the layout is exhausted'
            USING ERRCODE = 'sequence_generator_limit_exceeded',
                  DETAIL = format('Its time field ended at %s.', id_gen_managed.text_of_ms((l.epoch_ms + ticks * l.tick_ms)::numeric)),
                  HINT = 'If the clock is wrong, correct it. Otherwise the tables need a new key.';
    END IF;
    RAISE EXCEPTION 'no snowflake is available yet'
        USING ERRCODE = 'configuration_limit_exceeded',
              DETAIL = format('The next one of this session would be %s s ahead of the clock; max_lead allows '
                              '%s ms. Calls wait for up to 1000 ms.', round(lead_ms / 1000.0, 1), max_lead_ms),
              HINT = format('Wait %s s. If the clock was set back, correct it. Or allow the '
                            'difference: SELECT id_gen_managed.configure(max_lead => ''%s s''); or choose %s',
                            (lead_ms - max_lead_ms) / 1000 + 1, lead_ms / 1000 + 1,
                            id_gen_managed.configure_hint(own.layout));
END $$;
COMMENT ON FUNCTION id_gen_managed.refuse(bigint, bigint) IS 'raises the error of a snowflake that cannot be made';

-- Until `configure` is called, and after the extension has taken over.
CREATE OR REPLACE FUNCTION id_gen_managed.allocate_unset() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN $template$
BEGIN
    PERFORM id_gen_managed.refuse_without_number();
END $template$::text;
COMMENT ON FUNCTION id_gen_managed.allocate_unset() IS 'the text of allocate() without a worker ID';

-- Writes the functions that depend on the number in use.
CREATE OR REPLACE FUNCTION id_gen_managed.write_allocate() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own CONSTANT id_gen_managed.configuration := (SELECT n FROM id_gen_managed.configuration n WHERE in_use);
    l CONSTANT record := id_gen_managed.layout_of(coalesce(own.layout, id_gen_managed.layout()));
    lane_bits CONSTANT integer := log(2, coalesce(own.lanes, 1));
    count_bits CONSTANT integer := l.sequence_bits - lane_bits;
    body text := CASE WHEN own.in_use THEN id_gen_managed.allocate_template() ELSE id_gen_managed.allocate_unset() END;
    figure record;
BEGIN
    FOR figure IN SELECT * FROM jsonb_each_text(jsonb_build_object(
        'lane_mask', own.lanes - 1,
        'lane_bits', lane_bits,
        -- Not the text of a regclass, whose quotes (quote_all_identifiers) would end the elements of the array.
        'lane_sequences', (SELECT '{' || string_agg('id_gen_managed.lane_' || lane, ',' ORDER BY lane) || '}'
                             FROM generate_series(0, own.lanes - 1) lane),
        'lock_class', id_gen_managed.lock_class(),
        'epoch_ms', l.epoch_ms,
        'tick_ms', l.tick_ms,
        'count_bits', count_bits,
        'counts', 1::bigint << count_bits,
        'count_mask', (1::bigint << count_bits) - 1,
        'spread_mask', (1::bigint << greatest(count_bits - 4, 0)) - 1,
        'lead_ticks', ceil(extract(epoch FROM own.max_lead) * 1000 / l.tick_ms),
        'last_tick', (1::bigint << (l.time_bits - CASE WHEN l.total_bits > 63 THEN 1 ELSE 0 END)) - 1,
        'time_shift', l.time_shift,
        'sequence_shift', l.sequence_shift,
        'node_bits', (own.datacenter_id::bigint << l.datacenter_shift) | (own.worker_id::bigint << l.worker_shift))) LOOP
        body := replace(body, '{' || figure.key || '}', coalesce(figure.value, ''));
    END LOOP;
    EXECUTE format('CREATE OR REPLACE FUNCTION id_gen_managed.allocate(count bigint) RETURNS bigint LANGUAGE plpgsql '
                   'VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %L', body);
    COMMENT ON FUNCTION id_gen_managed.allocate(bigint) IS
        'allocate up to count snowflakes of one tick; returns the first (step: stride())';
    EXECUTE format('CREATE OR REPLACE FUNCTION id_gen_managed.layout() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE '
                   'RETURN %L::text', coalesce(own.layout, id_gen_managed.layout()));
    EXECUTE format('CREATE OR REPLACE FUNCTION id_gen_managed.run_of(id bigint) RETURNS bigint LANGUAGE sql IMMUTABLE '
                   'PARALLEL SAFE RETURN %s - ((id >> %s) & %s)', 1::bigint << count_bits, l.sequence_shift + lane_bits,
                   (1::bigint << count_bits) - 1);
    EXECUTE format('CREATE OR REPLACE FUNCTION id_gen_managed.stride() RETURNS bigint LANGUAGE sql IMMUTABLE '
                   'PARALLEL SAFE RETURN %s::bigint', 1::bigint << (l.sequence_shift + lane_bits));
    COMMENT ON FUNCTION id_gen_managed.run_of(bigint) IS 'how many snowflakes its lane has from this one to the end of the tick';
    COMMENT ON FUNCTION id_gen_managed.stride() IS 'the distance between two snowflakes of a lane and a tick';
END $$;
COMMENT ON FUNCTION id_gen_managed.write_allocate() IS 'writes the functions that depend on the number in use';

-- Waits for all transactions that have made IDs, and lets no other make any until this one ends. Once it has the gate,
-- it waits for nobody, so that no two wait for each other; but for one that goes back to savepoints for longer than 5 s.
CREATE OR REPLACE FUNCTION id_gen_managed.close_gate() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION 'cannot change the worker ID while session_replication_role is replica'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'Such sessions apply rows of another database, which the tables in id_gen_managed do not accept.',
                  HINT = 'Run this first: SET session_replication_role = origin;';
    END IF;
    FOR tries_left IN REVERSE 500..0 LOOP
        BEGIN
            PERFORM pg_advisory_xact_lock(id_gen_managed.lock_class(), -2);
            PERFORM id_gen_managed.close_schema();
            LOCK TABLE id_gen_managed.configuration IN SHARE ROW EXCLUSIVE MODE;
            -- The lanes are those of now, whatever this transaction's snapshot shows.
            IF to_regclass('id_gen_managed.lane_0') IS DISTINCT FROM (id_gen_managed.lane_sequences())[1] THEN
                RAISE undefined_table;
            END IF;
            -- Who went back to a savepoint has given back the gate, but uses the lanes to the transaction's end, and may
            -- come again: so the gate is opened for a moment. Not for ever, as there may always be one.
            EXIT WHEN tries_left = 0 OR NOT EXISTS (
                SELECT FROM pg_locks l
                 WHERE l.locktype = 'relation' AND l.relation = ANY (id_gen_managed.lane_sequences()) AND l.granted
                   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                   AND l.pid IS DISTINCT FROM pg_backend_pid());
            RAISE SQLSTATE 'IDGEN';
        EXCEPTION
            WHEN SQLSTATE 'IDGEN' THEN
                PERFORM pg_sleep(0.01);
            WHEN undefined_table OR undefined_function OR invalid_schema_name THEN
                RAISE EXCEPTION 'the worker ID was changed during this transaction'
                    USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_managed.close_gate() IS 'waits for all transactions that have generated IDs, and blocks others';

-- Ends the use of the number and removes its lanes, so that a call that waits at the gate fails. The caller has closed it.
CREATE OR REPLACE FUNCTION id_gen_managed.close_number() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own CONSTANT id_gen_managed.configuration := (SELECT n FROM id_gen_managed.configuration n WHERE in_use);
    l record;
    lane regclass;
    last bigint := 0;
BEGIN
    IF own.in_use THEN
        l := id_gen_managed.layout_of(own.layout);
        PERFORM id_gen_managed.renew_lanes(own);
    END IF;
    FOREACH lane IN ARRAY id_gen_managed.lane_sequences() LOOP
        -- Changes nothing, and takes the lock: nobody moves it once its last position was read.
        EXECUTE format('ALTER SEQUENCE %s OWNED BY NONE', lane);
        last := greatest(last, pg_sequence_last_value(lane));
        EXECUTE format('DROP SEQUENCE %s', lane);
    END LOOP;
    IF own.in_use THEN
        UPDATE id_gen_managed.configuration
           SET in_use = false,
               used_until = id_gen_managed.time_of_ms(
                   l.epoch_ms + (last / ((1::bigint << l.sequence_bits) / own.lanes) + 1) * l.tick_ms)
         WHERE in_use;
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_managed.close_number() IS 'ends the use of the number and its lanes';

-- Whoever calls this: allocate() runs as its own owner, and the lanes are that role's.
CREATE OR REPLACE FUNCTION id_gen_managed.create_lanes(lanes integer, last bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    existing CONSTANT text[] := ARRAY(SELECT r.object FROM id_gen_managed.restricted() r);
BEGIN
    FOR lane IN 0..lanes - 1 LOOP
        EXECUTE format('CREATE SEQUENCE id_gen_managed.lane_%s MINVALUE 0', lane);
        PERFORM setval(format('id_gen_managed.lane_%s', lane), last);
    END LOOP;
    PERFORM id_gen_managed.revoke_defaults(existing);
END $$;
COMMENT ON FUNCTION id_gen_managed.create_lanes(integer, bigint) IS 'creates the sequences of the lanes, all with the same value';

-- Where the extension is in this database, others make IDs with it: with the server's number, with those of its shards, and
-- in a fleet with whichever the registry gives it next. What this role can't see, the administrator has to know.
-- Returns the time that no snowflake of the extension exceeds in this database, whatever worker ID the server had.
CREATE OR REPLACE FUNCTION id_gen_managed.refuse_taken(worker_id integer, datacenter_id integer, layout text)
    RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    its_schema CONSTANT name := id_gen_managed.extension_schema();
    typed CONSTANT integer := nullif(current_setting('id_gen.worker_id', true), '');
    granted CONSTANT text := coalesce(nullif(current_setting('id_gen.worker_id_range', true), ''), format('0-%s', 2147483647));
    its_worker integer := typed;
    its_datacenter integer := nullif(current_setting('id_gen.datacenter_id', true), '');
    its_until timestamptz := clock_timestamp() + coalesce(nullif(current_setting('id_gen.max_lead', true), ''), '5s')::interval;
    fact text;
BEGIN
    IF its_schema IS NULL THEN
        -- The server may have just this number so that the database can move to it.
        RETURN (SELECT CASE i.extension_until WHEN 'infinity' THEN its_until ELSE i.extension_until END
                  FROM id_gen_managed.installation i);
    END IF;
    BEGIN
        -- The next one is above all others of the server, also of its former numbers, unless this transaction has some left of
        -- the tick in which it generated one.
        PERFORM pg_sleep(least((id_gen_managed.layout_of(layout)).tick_ms, 1000) / 1000.0);
        EXECUTE format('SELECT n.worker_id, n.datacenter_id, n.created_at '
                       'FROM %I.snowflake_parse(%1$I.snowflake_next()) n', its_schema)
           INTO its_worker, its_datacenter, its_until;
    EXCEPTION
        WHEN configuration_limit_exceeded THEN
            -- Its last one is further ahead of the clock than `its_until`.
            RAISE;
        WHEN OTHERS THEN
            -- It makes none, but may again.
            NULL;
    END;
    BEGIN
        EXECUTE format('SELECT ''is that of a shard that the server has'' FROM %I.id_gen_stat_shards s '
                       'WHERE (s.shard, s.datacenter_id) = ($1, $2)', its_schema)
           INTO fact USING worker_id, datacenter_id;
    EXCEPTION WHEN insufficient_privilege THEN
        NULL;
    END;
    IF (worker_id, datacenter_id) = (its_worker, coalesce(its_datacenter, 0)) THEN
        fact := 'is the server''s own';
    ELSIF its_worker >= 0 AND coalesce(typed, -1) < 0 AND datacenter_id = coalesce(its_datacenter, 0)
          AND worker_id BETWEEN split_part(granted, '-', 1)::bigint
                            AND coalesce(nullif(split_part(granted, '-', 2), ''), granted)::bigint THEN
        -- Its number was not typed, so it has it from a registry.
        fact := 'is one that the server''s fleet may give to a server';
    END IF;
    IF fact IS NOT NULL THEN
        RAISE EXCEPTION 'the extension generates snowflakes with this worker ID'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('Worker %s of datacenter %s %s: sessions that use the extension could generate the same IDs.',
                                  worker_id, datacenter_id, fact),
                  HINT = 'Choose ' || id_gen_managed.number_hint(
                      layout, CASE WHEN id_gen_managed.is_moved() THEN 'use_script' ELSE 'configure' END,
                      'no server, no shard and no other database uses, and that no fleet gives to a server '
                      '(id_gen.worker_id_range has the range of a fleet)');
    END IF;
    RETURN its_until;
END $$;
COMMENT ON FUNCTION id_gen_managed.refuse_taken(integer, integer, text) IS
    'raises an error if the extension on this server uses this worker ID; else returns the latest time of its snowflakes';

-- What an administrator types. What is not given stays as it is.
CREATE OR REPLACE FUNCTION id_gen_managed.configure(
        worker_id integer DEFAULT NULL, datacenter_id integer DEFAULT NULL, layout text DEFAULT NULL,
        max_lead interval DEFAULT NULL, lanes integer DEFAULT NULL, accept_layout boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own id_gen_managed.configuration%ROWTYPE;
    new id_gen_managed.configuration%ROWTYPE;
    former id_gen_managed.configuration%ROWTYPE;
    was_copy boolean;
    unused_from timestamptz;
    its_until timestamptz;
    l record;
    old record;
    first bigint;
    highest_old numeric;
    lowest_new numeric;
BEGIN
    PERFORM id_gen_managed.close_gate();
    IF id_gen_managed.is_moved() THEN
        RAISE EXCEPTION 'this database has moved to the extension id_gen'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'Its IDs are generated by the extension, with the server''s worker ID.',
                  HINT = 'To go back to the script, choose ' || id_gen_managed.number_hint(
                      id_gen_managed.layout(), 'use_script', 'no server, no shard and no other database uses');
    END IF;
    SELECT * INTO own FROM id_gen_managed.configuration n WHERE n.in_use;
    new.worker_id := coalesce(configure.worker_id, own.worker_id);
    new.datacenter_id := coalesce(configure.datacenter_id, own.datacenter_id, 0);
    new.layout := coalesce(configure.layout, own.layout, 'default');
    new.in_use := true;
    IF new.worker_id IS NULL THEN
        PERFORM id_gen_managed.refuse_without_number();
    END IF;
    l := id_gen_managed.layout_of(new.layout);
    PERFORM id_gen_managed.check_number('datacenter', new.datacenter_id, l.datacenter_bits, new.layout);
    PERFORM id_gen_managed.check_number('worker', new.worker_id, l.worker_bits, new.layout);
    was_copy := id_gen_managed.is_copy();
    IF was_copy OR (new.worker_id, new.datacenter_id) IS DISTINCT FROM (own.worker_id, own.datacenter_id) THEN
        its_until := id_gen_managed.refuse_taken(new.worker_id, new.datacenter_id, new.layout);
        UPDATE id_gen_managed.installation i SET extension_until = its_until;
    END IF;
    -- Few enough lanes that one of them has 64 IDs of a tick.
    new.lanes := coalesce(configure.lanes, CASE WHEN new.layout = own.layout THEN own.lanes END,
                          1 << least(4, greatest(0, l.sequence_bits - 6)));
    IF NOT new.lanes IN (1, 2, 4, 8, 16, 32, 64) OR new.lanes > 1::bigint << l.sequence_bits THEN
        RAISE EXCEPTION 'lanes must be a power of two from 1 to %', least(64, 1::bigint << l.sequence_bits)
            USING ERRCODE = 'invalid_parameter_value', DETAIL = format('The value of lanes is %s.', new.lanes),
                  HINT = format('Omit it, or use for example: SELECT id_gen_managed.configure(lanes => %s);',
                                least(16, 1::bigint << l.sequence_bits));
    END IF;
    new.max_lead := coalesce(configure.max_lead, own.max_lead, '1 s');
    IF NOT new.max_lead BETWEEN interval '0' AND interval '3650 days' THEN
        RAISE EXCEPTION 'max_lead must be from 0 to 3650 days'
            USING ERRCODE = 'invalid_parameter_value', DETAIL = format('The value of max_lead is %s.', new.max_lead),
                  HINT = 'Omit it, or use for example: SELECT id_gen_managed.configure(max_lead => ''1 s'');';
    END IF;
    -- In whole ticks, so that what is past the lead is past it in ticks as well.
    new.max_lead := interval '1 millisecond'
        * (ceil(extract(epoch FROM new.max_lead) * 1000 / l.tick_ms) * l.tick_ms)::double precision;

    PERFORM id_gen_managed.close_number();
    SELECT * INTO former FROM id_gen_managed.configuration n
     WHERE (n.datacenter_id, n.worker_id) = (new.datacenter_id, new.worker_id);
    unused_from := former.used_until;
    IF unused_from IS NULL OR was_copy THEN
        -- It may have been used before a restore or a new installation, or since this copy was made.
        unused_from := greatest(unused_from, clock_timestamp() + greatest(new.max_lead, former.max_lead));
    END IF;
    IF its_until >= clock_timestamp() THEN
        -- The extension may have had this number, too. Without the wait, the first calls could fail.
        unused_from := greatest(unused_from, its_until);
        PERFORM pg_sleep_for(least(its_until - clock_timestamp(), '10 s'));
    END IF;
    first := id_gen_managed.unused_position(new, unused_from);
    lowest_new := greatest(first / ((1::bigint << l.sequence_bits) / new.lanes), id_gen_managed.tick_at(
        clock_timestamp(), new.layout, l)) * 2::numeric ^ l.time_shift;
    FOR former IN SELECT * FROM id_gen_managed.configuration n WHERE n.layout <> new.layout AND NOT accept_layout LOOP
        old := id_gen_managed.layout_of(former.layout);
        highest_old := ((extract(epoch FROM former.used_until) * 1000 - old.epoch_ms) / old.tick_ms)
            * 2::numeric ^ old.time_shift;
        IF lowest_new < highest_old THEN
            RAISE EXCEPTION 'the layout was changed to one with lower snowflakes'
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = format('This database has generated IDs up to %s with layout "%s"; the next one with layout '
                                      '"%s" would be %s.', trunc(highest_old) - 1, former.layout, new.layout,
                                      trunc(lowest_new)),
                      HINT = 'Keep the layout; or, if duplicates are acceptable, run the same call with one more argument: '
                             'SELECT id_gen_managed.configure(..., accept_layout => true);';
        END IF;
    END LOOP;

    PERFORM id_gen_managed.create_lanes(new.lanes, first - 1);
    INSERT INTO id_gen_managed.configuration SELECT new.*
        ON CONFLICT ON CONSTRAINT configuration_pkey DO UPDATE
       SET (layout, lanes, max_lead, in_use, used_until)
         = (excluded.layout, excluded.lanes, excluded.max_lead, true, NULL);
    DELETE FROM id_gen_managed.given_to;
    INSERT INTO id_gen_managed.given_to SELECT (id_gen_managed.present()).*;
    PERFORM setval('id_gen_managed.incarnation', id_gen_managed.incarnation());
    PERFORM id_gen_managed.write_allocate();
END $$;
COMMENT ON FUNCTION id_gen_managed.configure(integer, integer, text, interval, integer, boolean) IS
    'set the worker ID and layout of this database; omitted arguments are unchanged';

DO $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RETURN; -- not in one transaction, as was said
    END IF;
    PERFORM id_gen_managed.write_allocate();
END $$;

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_next() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE RETURN id_gen_managed.allocate(1::bigint);
COMMENT ON FUNCTION id_gen_managed.snowflake_next() IS
    'next snowflake: unique, and greater than all earlier ones of this session';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_next_batch(count integer) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    left_over bigint := count;
    id bigint;
    run bigint;
BEGIN
    IF count IS NULL THEN
        RAISE EXCEPTION 'count must not be null' USING ERRCODE = 'null_value_not_allowed', HINT = 'Request 1 or more.';
    ELSIF count <= 0 THEN
        RAISE EXCEPTION 'count must be greater than zero'
            USING ERRCODE = 'invalid_parameter_value', DETAIL = format('The count is %s.', count),
                  HINT = 'Request 1 or more.';
    END IF;
    WHILE left_over > 0 LOOP
        id := id_gen_managed.allocate(left_over);
        run := least(left_over, id_gen_managed.run_of(id));
        RETURN QUERY SELECT id + place * id_gen_managed.stride() FROM generate_series(0, run - 1) AS place;
        left_over := left_over - run;
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_managed.snowflake_next_batch(integer) IS
    'the given number of new snowflakes, strictly increasing, as rows';

CREATE OR REPLACE FUNCTION id_gen_managed.snowflake_next_array(count integer) RETURNS bigint[]
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT array_agg(id ORDER BY id) FROM id_gen_managed.snowflake_next_batch(count) AS id;
END;
COMMENT ON FUNCTION id_gen_managed.snowflake_next_array(integer) IS
    'the given number of new snowflakes, strictly increasing, as an array';

-- ---------------------------------------------------------------------------------------------------------------------
-- UUIDs of version 7
-- ---------------------------------------------------------------------------------------------------------------------

-- A step is 1/4096 ms, the lowest of the 12 bits below the milliseconds. The session keeps its last one in a setting,
-- which a transaction that is rolled back takes with it.
CREATE OR REPLACE FUNCTION id_gen_managed.uuid_step() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    -- 512/125 steps are a microsecond; multiplied by 4096, it would not fit a bigint from 2041 on.
    RETURN set_config('id_gen_managed.uuid_step',
                      greatest((date_part('epoch', clock_timestamp()) * 1000000)::bigint * 512 / 125,
                               nullif(current_setting('id_gen_managed.uuid_step', true), '')::bigint + 1)::text, false)::bigint;
COMMENT ON FUNCTION id_gen_managed.uuid_step() IS 'the time in 1/4096 ms, later than every one this session got before';

CREATE OR REPLACE FUNCTION id_gen_managed.uuid_of(unix_ms bigint, step bigint, tail text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (lpad(to_hex(unix_ms), 12, '0') || to_hex(28672 + (step & 4095)) || tail)::uuid;
COMMENT ON FUNCTION id_gen_managed.uuid_of(bigint, bigint, text) IS 'a UUID version 7 from its parts';

CREATE OR REPLACE FUNCTION id_gen_managed.uuid_ms(ts timestamptz) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT isfinite(ts) OR NOT floor(extract(epoch FROM ts) * 1000) BETWEEN 0 AND 281474976710655 THEN
        RAISE EXCEPTION 'timestamp is out of range for UUID version 7'
            USING ERRCODE = 'datetime_field_overflow',
                  DETAIL = 'Timestamps of UUID version 7 are from 1970-01-01T00:00:00Z to the year 10889.',
                  HINT = 'Use a time within that range.';
    END IF;
    RETURN floor(extract(epoch FROM ts) * 1000);
END $$;
COMMENT ON FUNCTION id_gen_managed.uuid_ms(timestamptz) IS 'a timestamp as the milliseconds of a UUID version 7';

CREATE OR REPLACE FUNCTION id_gen_managed.uuidv7() RETURNS uuid
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    step CONSTANT bigint := id_gen_managed.uuid_step();
BEGIN
    -- The variant and 62 random bits are those of a UUID version 4.
    RETURN (lpad(to_hex(step >> 12), 12, '0') || to_hex(28672 + (step & 4095)) || substr(gen_random_uuid()::text, 20))::uuid;
END $$;
COMMENT ON FUNCTION id_gen_managed.uuidv7() IS 'new UUID version 7, greater than all earlier ones of this session';

CREATE OR REPLACE FUNCTION id_gen_managed.uuidv7(shift interval) RETURNS uuid
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    step CONSTANT bigint := id_gen_managed.uuid_step();
BEGIN
    RETURN id_gen_managed.uuid_of(id_gen_managed.uuid_ms(id_gen_managed.time_of_ms(step >> 12) + shift), step,
                                  substr(gen_random_uuid()::text, 20));
END $$;
COMMENT ON FUNCTION id_gen_managed.uuidv7(interval) IS 'new UUID version 7 with its timestamp shifted by an interval';

CREATE OR REPLACE FUNCTION id_gen_managed.uuidv7_timestamp(id uuid) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE WHEN substr($1::text, 15, 1) = '7' AND substr($1::text, 20, 1) IN ('8', '9', 'a', 'b')
                THEN id_gen_managed.time_of_ms(('x' || left(replace($1::text, '-', ''), 12))::bit(48)::bigint) END;
COMMENT ON FUNCTION id_gen_managed.uuidv7_timestamp(uuid) IS
    'time of a UUID version 7, to one millisecond; NULL for other versions';

CREATE OR REPLACE FUNCTION id_gen_managed.uuidv7_min(ts timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN id_gen_managed.uuid_of(id_gen_managed.uuid_ms(ts), 0::bigint, '8000000000000000');
COMMENT ON FUNCTION id_gen_managed.uuidv7_min(timestamptz) IS
    'smallest UUID version 7 of the millisecond that contains ts';

CREATE OR REPLACE FUNCTION id_gen_managed.uuidv7_max(ts timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN id_gen_managed.uuid_of(id_gen_managed.uuid_ms(ts), 4095::bigint, 'bfffffffffffffff');
COMMENT ON FUNCTION id_gen_managed.uuidv7_max(timestamptz) IS
    'largest UUID version 7 of the millisecond that contains ts';

CREATE OR REPLACE FUNCTION id_gen_managed.uuidv7_time_decoder(id text) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN id_gen_managed.uuidv7_timestamp(id::pg_catalog.uuid);
COMMENT ON FUNCTION id_gen_managed.uuidv7_time_decoder(text) IS
    'time of a UUID version 7 as text, for p_time_decoder of pg_partman';

-- ---------------------------------------------------------------------------------------------------------------------
-- The functions that users call, and moving them to the extension and back
-- ---------------------------------------------------------------------------------------------------------------------

-- The functions that users call, wherever they are and whatever their names are by now: each is called by the body of a
-- function published_..., which PostgreSQL keeps by the OID of the one called. They call one of the same name and arguments as
-- the original, which is here.
CREATE OR REPLACE FUNCTION id_gen_managed.wrappers(OUT original oid, OUT wrapper oid, OUT called oid)
    RETURNS SETOF record LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.oid, listed.refobjid, c.oid
      FROM pg_proc o
      JOIN pg_proc p ON p.pronamespace = o.pronamespace AND p.proname = 'published_' || o.proname AND p.proargtypes = o.proargtypes
      JOIN pg_depend listed ON listed.classid = 'pg_proc'::regclass AND listed.objid = p.oid
                           AND listed.refclassid = 'pg_proc'::regclass
      JOIN pg_depend calls ON calls.classid = 'pg_proc'::regclass AND calls.objid = listed.refobjid
                          AND calls.refclassid = 'pg_proc'::regclass
      JOIN pg_proc c ON c.oid = calls.refobjid AND (c.proname, c.proargtypes) = (o.proname, o.proargtypes)
     WHERE o.pronamespace = 'id_gen_managed'::regnamespace
$$;
COMMENT ON FUNCTION id_gen_managed.wrappers() IS
    'the functions that users call, with the function of the script that each stands for and the one that it calls';

CREATE OR REPLACE FUNCTION id_gen_managed.is_moved() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM id_gen_managed.wrappers() w WHERE w.called <> w.original)
$$;
COMMENT ON FUNCTION id_gen_managed.is_moved() IS 'whether the functions that users call are those of the extension';

CREATE OR REPLACE FUNCTION id_gen_managed.extension_function(original pg_proc) RETURNS oid
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.oid
      FROM pg_depend member
      JOIN pg_extension e ON member.refclassid = 'pg_extension'::regclass AND e.oid = member.refobjid AND e.extname = 'id_gen'
      JOIN pg_proc p ON member.classid = 'pg_proc'::regclass AND p.oid = member.objid
     WHERE member.deptype = 'e' AND (p.proname, p.proargtypes) = (original.proname, original.proargtypes)
$$;
COMMENT ON FUNCTION id_gen_managed.extension_function(pg_proc) IS 'the extension''s function of the same name and arguments';

-- Each is one call of the function of the same name and arguments, here or in the extension. What depends on them, such as a
-- column's default, keeps to them whatever they call; the planner puts that call in place of theirs.
CREATE OR REPLACE FUNCTION id_gen_managed.publish(of_extension boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner CONSTANT oid := (SELECT n.nspowner FROM pg_namespace n WHERE n.oid = 'id_gen_managed'::regnamespace);
    -- For those that are new: beside the others, or in the first schema of the installer's search path.
    home CONSTANT oid := coalesce(
        (SELECT p.pronamespace FROM id_gen_managed.wrappers() w JOIN pg_proc p ON p.oid = w.wrapper
          ORDER BY p.proname <> 'snowflake_next' LIMIT 1),
        to_regnamespace(quote_ident(nullif(current_setting('id_gen_managed.home', true), ''))));
    original pg_proc%ROWTYPE;
    called pg_proc%ROWTYPE;
    wrapper pg_proc%ROWTYPE;
    is_listed boolean;
    signature text;
    arguments text;
    marker text;
BEGIN
    FOR original IN
        SELECT * FROM pg_proc p
         WHERE p.pronamespace = 'id_gen_managed'::regnamespace AND p.proname ~ '^(snowflake|uuidv7)(_|$)' ORDER BY p.oid
    LOOP
        called := original;
        IF of_extension THEN
            SELECT * INTO called FROM pg_proc p WHERE p.oid = id_gen_managed.extension_function(original);
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the extension id_gen lacks a function of the script'
                    USING ERRCODE = 'undefined_function', DETAIL = format('It is %s.', original.oid::regprocedure),
                          HINT = 'Update the extension: ALTER EXTENSION id_gen UPDATE;';
            END IF;
        END IF;
        SELECT p.* INTO wrapper FROM id_gen_managed.wrappers() w JOIN pg_proc p ON p.oid = w.wrapper
         WHERE w.original = original.oid;
        is_listed := FOUND;
        IF NOT is_listed THEN
            SELECT * INTO wrapper FROM pg_proc p
             WHERE p.pronamespace = home AND (p.proname, p.proargtypes) = (original.proname, original.proargtypes);
        END IF;
        -- Ours belong to whom the schema here belongs to, and call one of the same name, here or in the extension. Whoever
        -- owns a function can give it another body at any time, which all who use it run.
        IF wrapper.proowner <> owner OR wrapper.oid IS NOT NULL AND NOT is_listed AND NOT EXISTS (
            SELECT FROM pg_depend d
             WHERE d.classid = 'pg_proc'::regclass AND d.objid = wrapper.oid AND d.refclassid = 'pg_proc'::regclass
               AND d.refobjid IN (original.oid, id_gen_managed.extension_function(original))
        ) THEN
            RAISE EXCEPTION 'function % already exists', wrapper.oid::regprocedure
                USING ERRCODE = 'duplicate_function',
                      DETAIL = format('It belongs to %I, and was not created by this script.',
                                      pg_get_userbyid(wrapper.proowner)),
                      HINT = 'Install the script with another schema first in search_path: CREATE SCHEMA ids; SET search_path = ids;';
        ELSIF wrapper.oid IS NULL THEN
            IF home IS NULL OR home = pg_my_temp_schema() THEN
                RAISE EXCEPTION '%', CASE WHEN home IS NULL THEN 'no schema has been selected to create in'
                                          ELSE 'cannot create the functions in a temporary schema' END
                    USING ERRCODE = 'invalid_schema_name',
                          HINT = 'Install the script with a schema first in search_path: CREATE SCHEMA ids; SET search_path = ids;';
            END IF;
            wrapper.proname := original.proname;
            wrapper.pronamespace := home;
        END IF;
        signature := format('%s.%I', wrapper.pronamespace::regnamespace, wrapper.proname);
        arguments := (SELECT string_agg('$' || n, ', ') FROM generate_series(1, called.pronargs) n);
        EXECUTE format(
            'CREATE OR REPLACE FUNCTION %s(%s) RETURNS %s LANGUAGE sql %s %s PARALLEL %s BEGIN ATOMIC SELECT %s %s.%I(%s); END',
            signature, pg_get_function_arguments(called.oid), pg_get_function_result(called.oid),
            CASE called.provolatile WHEN 'i' THEN 'IMMUTABLE' WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END,
            CASE WHEN called.proisstrict THEN 'STRICT' ELSE 'CALLED ON NULL INPUT' END,
            CASE called.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END,
            CASE WHEN called.proretset OR called.prorettype = 'record'::regtype THEN '* FROM' ELSE '' END,
            called.pronamespace::regnamespace, called.proname, arguments);
        EXECUTE format('COMMENT ON FUNCTION %s(%s) IS %L', signature, pg_get_function_identity_arguments(called.oid),
                       obj_description(called.oid, 'pg_proc'));
        marker := format('id_gen_managed.%I(%s)', 'published_' || original.proname,
                         (SELECT string_agg(format_type(a.type, NULL), ', ' ORDER BY a.place)
                            FROM unnest(original.proargtypes) WITH ORDINALITY a (type, place)));
        EXECUTE format('CREATE OR REPLACE FUNCTION %s RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE '
                       'BEGIN ATOMIC SELECT %s(%s); END', marker, signature, arguments);
        EXECUTE format('COMMENT ON FUNCTION %s IS %L', marker, 'is not called: its body keeps a function that users call');
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_managed.publish(boolean) IS 'makes the functions that users call those of the script or the extension';

DO $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RETURN; -- not in one transaction, as was said
    END IF;
    PERFORM id_gen_managed.publish(of_extension => false);
END $$;

-- After the move, the script's own functions generate nothing. PostgreSQL knows who uses them, other than from the text of a
-- function's body.
CREATE OR REPLACE FUNCTION id_gen_managed.refuse_users() RETURNS void
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    users text;
    instead text;
BEGIN
    SELECT string_agg(DISTINCT format('%s uses %s', pg_describe_object(d.classid, d.objid, d.objsubid), p.oid::regprocedure), '; '),
           string_agg(DISTINCT w.wrapper::regprocedure::text, ' or ')
      INTO users, instead
      FROM pg_depend d
      JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
      LEFT JOIN id_gen_managed.wrappers() w ON w.original = p.oid
     WHERE p.pronamespace = 'id_gen_managed'::regnamespace AND p.proname ~ '^(snowflake_next|allocate)'
       AND NOT (d.classid = 'pg_proc'::regclass AND (
                d.objid IN (SELECT m.wrapper FROM id_gen_managed.wrappers() m)
             OR d.objid IN (SELECT f.oid FROM pg_proc f WHERE f.pronamespace = 'id_gen_managed'::regnamespace)));
    IF users IS NOT NULL THEN
        RAISE EXCEPTION 'other objects use the script''s own functions'
            USING ERRCODE = 'dependent_objects_still_exist',
                  DETAIL = format('These would generate no snowflakes with the extension: %s.', users),
                  HINT = format('Use %s in them instead, then run it again.', coalesce(instead, 'snowflake_next()'));
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_managed.refuse_users() IS
    'raises an error if anything but the functions that users call generates snowflakes with the script''s own functions';

-- To the extension: no table is changed, and no ID of the script's is met by one of the library's.
CREATE OR REPLACE FUNCTION id_gen_managed.use_extension(schema name DEFAULT 'id_gen') RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    used_until timestamptz;
    its_schema name;
    its_layout text;
    its_id bigint;
    its_time timestamptz;
BEGIN
    PERFORM id_gen_managed.close_gate();
    IF id_gen_managed.is_moved() THEN
        RAISE EXCEPTION 'this database has moved to the extension id_gen'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To go back to the script, choose ' || id_gen_managed.number_hint(
                      id_gen_managed.layout(), 'use_script', 'no server, no shard and no other database uses');
    END IF;
    PERFORM id_gen_managed.refuse_users();
    EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', schema);
    EXECUTE format('CREATE EXTENSION IF NOT EXISTS id_gen SCHEMA %I', schema);
    its_schema := id_gen_managed.extension_schema();
    EXECUTE format('SELECT layout FROM %I.snowflake_layouts() WHERE in_use', its_schema) INTO its_layout;
    IF id_gen_managed.layout_of(its_layout) <> id_gen_managed.layout_of(id_gen_managed.layout()) THEN
        RAISE EXCEPTION 'the server has another layout than this database'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The server''s id_gen.layout is "%s", the database''s layout "%s".', its_layout,
                                  id_gen_managed.layout()),
                  HINT = format('Set the same layout on the server and restart it: ALTER SYSTEM SET id_gen.layout = %L;',
                                id_gen_managed.layout());
    END IF;
    used_until := clock_timestamp();
    IF EXISTS (SELECT FROM id_gen_managed.configuration n WHERE n.in_use) THEN
        PERFORM id_gen_managed.close_number();
        -- Of all numbers: the library may have been given any of them.
        used_until := (SELECT max(n.used_until) FROM id_gen_managed.configuration n);
    END IF;
    IF used_until > clock_timestamp() + interval '10 s' THEN
        RAISE EXCEPTION 'the last snowflake of this database is ahead of the clock'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('Its time is %s ms in the future.',
                                  round(extract(epoch FROM used_until - clock_timestamp()) * 1000)),
                  HINT = 'Wait until that time; if the clock was set back, correct it.';
    END IF;
    -- The library's positions are those of the clock, or later. No session has any of an earlier tick left once the
    -- clock has been out of it for a while.
    WHILE clock_timestamp() < used_until + interval '10 ms' LOOP
        PERFORM pg_sleep_for(used_until + interval '10 ms' - clock_timestamp());
    END LOOP;
    EXECUTE format('SELECT %I.snowflake_next()', its_schema) INTO its_id;
    EXECUTE format('SELECT %I.snowflake_timestamp(%s)', its_schema, its_id) INTO its_time;
    IF its_time < used_until THEN
        RAISE EXCEPTION 'the extension''s snowflakes are not above those of this database'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The next snowflake of the extension has the time %s; the last ones of this database end before %s.', its_time,
                                  used_until),
                  HINT = 'Run the command again.';
    END IF;
    PERFORM id_gen_managed.publish(of_extension => true);
    UPDATE id_gen_managed.installation SET extension_until = 'infinity';
    PERFORM id_gen_managed.write_allocate();
END $$;
COMMENT ON FUNCTION id_gen_managed.use_extension(name) IS
    'the extension generates and decodes the IDs of this database; no table is changed';

-- Back to the script. The library goes on for others with its own number, so the script needs another.
CREATE OR REPLACE FUNCTION id_gen_managed.use_script(worker_id integer, datacenter_id integer DEFAULT 0) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    its_schema name;
    its_layout text;
BEGIN
    PERFORM id_gen_managed.close_gate();
    IF NOT id_gen_managed.is_moved() THEN
        RAISE EXCEPTION 'this database already uses the script'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To give it another one, choose ' || id_gen_managed.configure_hint(id_gen_managed.layout());
    END IF;
    its_schema := id_gen_managed.extension_schema();
    EXECUTE format('SELECT layout FROM %I.snowflake_layouts() WHERE in_use', its_schema) INTO its_layout;
    PERFORM id_gen_managed.refuse_taken(worker_id, datacenter_id, its_layout);
    PERFORM id_gen_managed.publish(of_extension => false);
    PERFORM id_gen_managed.configure(
        worker_id => use_script.worker_id, datacenter_id => use_script.datacenter_id,
        layout => coalesce((SELECT p.name FROM id_gen_managed.presets() p WHERE p.layout = its_layout), its_layout),
        max_lead => NULL::interval, lanes => NULL::integer, accept_layout => false);
END $$;
COMMENT ON FUNCTION id_gen_managed.use_script(integer, integer) IS
    'generate IDs with this script again, with its own worker ID; changes no table';

CREATE OR REPLACE FUNCTION id_gen_managed.uninstall() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own_relations CONSTANT regclass[] := ARRAY(
        SELECT c.oid FROM pg_class c
         WHERE c.relnamespace = 'id_gen_managed'::regnamespace
           AND c.relname ~ '^(installation|configuration|given_to|incarnation|lane_[0-9]+)$' AND c.relkind IN ('S', 'r'));
    relation record;
    other record;
BEGIN
    PERFORM id_gen_managed.close_gate();
    SELECT named.type, named.identity, d.classid, d.objid INTO other
      FROM pg_depend d CROSS JOIN pg_identify_object(d.classid, d.objid, 0) named
     WHERE (d.refclassid, d.refobjid, d.deptype) = ('pg_namespace'::regclass, 'id_gen_managed'::regnamespace, 'n')
       AND d.classid <> 'pg_proc'::regclass AND (d.classid <> 'pg_class'::regclass OR d.objid <> ALL (own_relations))
     ORDER BY named.type <> 'extension', named.type = 'sequence', d.objid DESC
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'cannot remove the schema id_gen_managed because it holds another object'
            USING ERRCODE = 'dependent_objects_still_exist',
                  DETAIL = format('The %s %s is in the schema.', other.type, other.identity),
                  HINT = id_gen_managed.how_to_drop(other.classid, other.objid);
    END IF;
    FOR relation IN
        SELECT t.tgrelid::regclass AS name FROM pg_trigger t WHERE t.tgfoid = 'id_gen_managed.keep_own_rows()'::regprocedure
    LOOP
        EXECUTE format('DROP TRIGGER keep_own_rows ON %s', relation.name);
    END LOOP;
    -- All in one, as they call each other; PostgreSQL refuses it where anything else does.
    EXECUTE (
        SELECT 'DROP ROUTINE ' || string_agg(DISTINCT f.oid::regprocedure::text, ', ') || ' RESTRICT'
          FROM pg_proc f
         WHERE f.pronamespace = 'id_gen_managed'::regnamespace
            OR f.oid IN (SELECT w.wrapper FROM id_gen_managed.wrappers() w));
    FOR relation IN
        SELECT c.oid::regclass AS name, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind FROM pg_class c
         WHERE c.oid = ANY (own_relations)
    LOOP
        EXECUTE format('DROP %s %s RESTRICT', relation.kind, relation.name);
    END LOOP;
    DROP SCHEMA id_gen_managed RESTRICT;
END $$;
COMMENT ON FUNCTION id_gen_managed.uninstall() IS
    'remove this script; fails while a default or an index uses its functions';

DO $$
DECLARE
    existing text[];
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RETURN; -- not in one transaction, as was said
    END IF;
    existing := coalesce(nullif(current_setting('id_gen_managed.existing'), ''), '{}');
    PERFORM id_gen_managed.revoke_defaults(existing);
    IF existing = '{}' THEN
        GRANT USAGE ON SCHEMA id_gen_managed TO PUBLIC;
    END IF;
END $$;

DO $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        PERFORM pg_catalog.set_config('default_transaction_read_only', 'off', false);
    ELSE
        PERFORM set_config('search_path', current_setting('id_gen_managed.search_path'), true);
    END IF;
END $$;
