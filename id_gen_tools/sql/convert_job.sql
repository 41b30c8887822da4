-- The schema that the first job makes and the last one drops: what is known of each job that moves a column over while the
-- table is in use, and the functions that carry it on. None of it belongs to the extension; whoever starts the first job
-- owns it. `@extschema@` is the schema of `id_gen`, and `@settings@` the settings that texts of the catalogs depend on: every
-- function reads, compares and runs them under the same ones, whatever those of its session are.
--
-- Which statements a job consists of is written down when it starts, for its administrator to read. What is done is
-- written in the transaction that does it, so that after a crash the next call goes on where the last one ended.
--
-- Order of locks: the job's row first, so that each job is carried on by one session at a time; then the tables. Nothing
-- waits for a lock on a table longer than half a second at a time, and what waits in vain gives up all locks that it has
-- before it tries again.

CREATE SCHEMA id_gen_convert;
COMMENT ON SCHEMA id_gen_convert IS 'jobs of id_gen that convert columns; dropped with the last job';

CREATE TABLE id_gen_convert.job (
    id integer PRIMARY KEY,
    relation regclass NOT NULL,
    column_name text NOT NULL,
    target text NOT NULL,
    -- Where it is: fill, check, index, attach, reference, ready, switched, returned.
    phase text NOT NULL DEFAULT 'fill',
    -- How many statements of the phase are done.
    done integer NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    verified_at timestamptz,
    -- The triggers that kept rows in step since then, and the versions of their rows in the catalog.
    verified_triggers text,
    paused boolean NOT NULL DEFAULT false,
    waiting_for text,
    -- The tables that are locked to switch; and views that are made again, other tables whose policies are, and the sequences
    -- that continue beyond all values.
    tables text[] NOT NULL, others text[] NOT NULL,
    -- What depended on the columns when the job began, or after its switch.
    dependents text[],
    -- What the definitions meant that the switch has made again, and the OID of this schema then: in a restored dump, both have others.
    meanings jsonb, meant_in oid,
    -- For snowflakes with the time of their rows: the first ID of the epoch with the number that they get, what the next
    -- tick and the next in the sequence add, how many a tick has, and the layout of all this.
    node bigint, tick_step bigint, sequence_step bigint, sequence_size bigint, layout text,
    UNIQUE (relation, column_name)
);
COMMENT ON TABLE id_gen_convert.job IS 'columns that are being converted';

CREATE TABLE id_gen_convert.member (
    job integer REFERENCES id_gen_convert.job ON DELETE CASCADE,
    relation regclass, column_name text, new_name text NOT NULL, old_name text NOT NULL,
    -- Both columns by the OID of their table and their numbers, which show whether they were renamed or dropped; a restored dump has others.
    new_column text, old_column text,
    PRIMARY KEY (job, relation, column_name)
);
COMMENT ON TABLE id_gen_convert.member IS 'the converted column of each job and the columns that reference it';

CREATE TABLE id_gen_convert.statement (
    job integer REFERENCES id_gen_convert.job ON DELETE CASCADE,
    phase text,
    place integer,
    statement text NOT NULL,
    -- What is locked before it runs, and how.
    tables text[], lock_mode text,
    -- The index or constraint that it makes, and of which table; in phase unswitch, the one that it needs. Without that table
    -- it is left out: another one may have its name.
    made_on regclass, made text,
    -- The object that it makes again from its definition, and what drops that.
    object text, remedy text,
    PRIMARY KEY (job, phase, place)
);
COMMENT ON TABLE id_gen_convert.statement IS 'statements of each job; the client runs those of phases first_index and index';

CREATE TABLE id_gen_convert.fill (
    job integer REFERENCES id_gen_convert.job ON DELETE CASCADE,
    place integer,
    relation regclass NOT NULL,
    -- The statements that keep new rows in step, run before old ones are filled.
    synchronize text[] NOT NULL,
    -- Which rows lack a value, and how they get it; where snowflakes carry the time of their rows, the column that gets
    -- them and the expression of the time.
    pending text NOT NULL,
    assignment text,
    allotted_column text, allotted_at text,
    -- Which rows have a value that is not the one of the old value, and which lack an old value after the switch.
    mismatch text NOT NULL,
    unreturned text NOT NULL,
    -- Rows that have another old value than the row that they reference, after the switch; and the assignment of that value.
    diverged text NOT NULL,
    restoring text,
    begun_at timestamptz, ended_at timestamptz, told_at timestamptz,
    rows_total bigint NOT NULL DEFAULT 0, rows_done bigint NOT NULL DEFAULT 0,
    -- How many blocks a batch has.
    width integer NOT NULL DEFAULT 16,
    -- The highest ID that an old row has got so far.
    highest bigint NOT NULL DEFAULT -1,
    PRIMARY KEY (job, place)
);
COMMENT ON TABLE id_gen_convert.fill IS 'tables whose old rows are filled, in this order';

CREATE TABLE id_gen_convert.trigger_of (
    job integer REFERENCES id_gen_convert.job ON DELETE CASCADE,
    relation regclass, trigger_name text, is_backward boolean,
    PRIMARY KEY (job, relation, trigger_name)
);
COMMENT ON TABLE id_gen_convert.trigger_of IS 'triggers that set the other column in new rows, before and after the switch';

CREATE TABLE id_gen_convert.part (
    job integer, place integer,
    relation regclass,
    next_block bigint NOT NULL DEFAULT 0, blocks bigint NOT NULL,
    PRIMARY KEY (job, place, relation),
    FOREIGN KEY (job, place) REFERENCES id_gen_convert.fill ON DELETE CASCADE
);
COMMENT ON TABLE id_gen_convert.part IS 'progress of each table or partition';

-- Partitions may be created and dropped after a switch. A detached one would keep both columns.
CREATE TABLE id_gen_convert.partition (
    job integer REFERENCES id_gen_convert.job ON DELETE CASCADE,
    relation regclass, parent regclass, name text NOT NULL,
    PRIMARY KEY (job, relation)
);
COMMENT ON TABLE id_gen_convert.partition IS 'partitions of each job at its start and its switch';

CREATE TABLE id_gen_convert.full_tick (
    job integer REFERENCES id_gen_convert.job ON DELETE CASCADE,
    tick bigint, free_tick bigint NOT NULL,
    PRIMARY KEY (job, tick)
);
COMMENT ON TABLE id_gen_convert.full_tick IS 'full ticks, and the first tick after each that may have room';

-- What holds rows of a table: itself, or its partitions.
CREATE FUNCTION id_gen_convert.parts(relation regclass) RETURNS SETOF regclass
    LANGUAGE sql STABLE @settings@
    AS $$
        WITH RECURSIVE member (oid) AS (
            SELECT relation::oid UNION SELECT inhrelid FROM member JOIN pg_inherits ON inhparent = oid)
        SELECT m.oid::regclass FROM member m JOIN pg_class c USING (oid) WHERE c.relkind = 'r' ORDER BY 1
    $$;
COMMENT ON FUNCTION id_gen_convert.parts(regclass) IS 'tables that store the rows of a table: itself or its partitions';

-- Both have their types: with literals of none, PostgreSQL prefers a function of the same name that takes text.
CREATE FUNCTION id_gen_convert.arguments(relation regclass, column_name text) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$ SELECT format('%L::regclass, %L::text', relation, column_name) $$;
COMMENT ON FUNCTION id_gen_convert.arguments(regclass, text) IS 'a column as the first arguments of a function';

-- A job runs statements and functions of its owner, with the privileges of whoever calls it. So only the owner may
-- call it; if the owner is a superuser, so may other superusers. A session of a superuser that has run SET ROLE may not: a
-- function of the owner could reset the role.
CREATE FUNCTION id_gen_convert.check_role() RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    owner name := (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE oid = 'id_gen_convert'::regnamespace);
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = owner AND rolsuper)
       AND (current_user <> owner OR EXISTS (SELECT FROM pg_roles WHERE rolname = session_user AND rolsuper)) THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('permission denied to run jobs of role %I', owner),
            DETAIL = 'A job runs statements and functions of its role, which could use all privileges of this session.',
            HINT = format('Log in as %1$I. A member of it that is not a superuser can run: SET ROLE %1$I;', owner);
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_role() IS 'reject other roles than the owner, and superusers if the owner is not one';

-- Statements of a job go by the names that its tables had when it began. Tables that are gone need none.
CREATE FUNCTION id_gen_convert.check_names(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    renamed text;
BEGIN
    SELECT string_agg(DISTINCT c.oid::regclass::text, ', ') INTO renamed
      FROM id_gen_convert.member m JOIN pg_class c ON c.oid = m.relation
     WHERE m.job = j.id AND NOT (c.oid::regclass::text = ANY (j.tables));
    IF renamed IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('tables have been renamed since the job of column %I of relation %s began', j.column_name, j.relation),
            DETAIL = format('New names: %s. The tables of the job were called: %s.', renamed, array_to_string(j.tables, ', ')),
            HINT = 'Rename the tables back with ALTER TABLE, or their schemas with ALTER SCHEMA, and run the command again.';
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_names(id_gen_convert.job) IS 'reject a job whose tables have been renamed';

-- Partitions that were detached would keep both columns, and statements of a job use the names that partitions had.
CREATE FUNCTION id_gen_convert.check_partitions(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    gone text;
BEGIN
    SELECT string_agg(what, ', ' ORDER BY what) INTO gone FROM (
        SELECT format('%s of %s is %s %s', p.name, p.parent, CASE WHEN i.inhrelid IS NULL THEN 'detached as' ELSE 'renamed to' END, c.oid::regclass)
          FROM id_gen_convert.partition p JOIN pg_class c ON c.oid = p.relation
          LEFT JOIN pg_inherits i ON (i.inhrelid, i.inhparent) = (p.relation, p.parent)
         WHERE p.job = j.id AND (i.inhrelid IS NULL OR c.oid::regclass::text <> p.name)
         UNION ALL
        -- One that was created since the start or the switch is not recorded. It has both columns, and old values of the same sequence.
        SELECT format('%s has the columns of %s and is not one of its partitions', c.oid::regclass, m.relation)
          FROM id_gen_convert.member m JOIN pg_partitioned_table t ON t.partrelid = m.relation,
               LATERAL (SELECT CASE j.phase WHEN 'switched' THEN m.old_name ELSE m.column_name END,
                               CASE j.phase WHEN 'switched' THEN m.column_name ELSE m.new_name END) AS given (old, new)
          JOIN pg_attribute own ON own.attname = given.old
          JOIN pg_attrdef e ON (e.adrelid, e.adnum) = (own.attrelid, own.attnum) AND pg_get_expr(e.adbin, e.adrelid) LIKE 'nextval(%'
          JOIN pg_attribute a ON a.attname = given.old
          JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum) AND pg_get_expr(d.adbin, d.adrelid) = pg_get_expr(e.adbin, e.adrelid)
          JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') AND NOT c.relispartition
         WHERE m.job = j.id AND own.attrelid = m.relation AND c.oid NOT IN (SELECT relation FROM id_gen_convert.member)
           AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = given.new)
           AND c.oid NOT IN (SELECT p.relation FROM id_gen_convert.partition p WHERE p.job = j.id)) AS changed (what);
    IF gone IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('partitions have been detached or renamed since the job of column %I of relation %s began', j.column_name, j.relation),
            DETAIL = format('Changed partitions: %s.', gone),
            HINT = 'Attach them again and rename them back with ALTER TABLE, or drop them, and run the command again.';
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_partitions(id_gen_convert.job) IS 'reject a job whose partitions have been detached or renamed';

CREATE FUNCTION id_gen_convert.record_partitions(job_id integer) RETURNS void
    LANGUAGE sql @settings@
    AS $$
        INSERT INTO id_gen_convert.partition
        SELECT DISTINCT job_id, i.inhrelid::regclass, i.inhparent::regclass, i.inhrelid::regclass::text
          FROM id_gen_convert.member m JOIN pg_inherits i ON i.inhparent = m.relation WHERE m.job = job_id
            ON CONFLICT DO NOTHING
    $$;
COMMENT ON FUNCTION id_gen_convert.record_partitions(integer) IS 'record the partitions that the tables of a job have now';

CREATE FUNCTION id_gen_convert.check_key(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
BEGIN
    IF j.relation NOT IN (SELECT oid FROM pg_class) THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the table of column %I has been dropped since the job began', j.column_name),
            DETAIL = 'The values of columns that referenced it cannot be compared with its rows.',
            HINT = CASE j.phase WHEN 'switched' THEN format('To keep the new values of these columns: SELECT id_gen_convert.finish(%s);', arguments)
                        ELSE format('To keep the old values of these columns: CALL id_gen_convert.undo(%s);', arguments) END;
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_key(id_gen_convert.job) IS 'reject a job without the table of its key';

-- Statements of a job name functions of the extension.
CREATE FUNCTION id_gen_convert.check_extension(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    present text := (SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'id_gen');
    has_schema boolean := @extschema_text@ IN (SELECT quote_ident(nspname) FROM pg_namespace);
BEGIN
    IF present IS DISTINCT FROM @extschema_text@ THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('extension id_gen has been %s since the job of column %I of relation %s began',
                             CASE WHEN present IS NULL THEN 'dropped' ELSE 'moved to another schema' END, j.column_name, j.relation),
            DETAIL = format('The job needs functions in schema %s.', @extschema_text@),
            HINT = CASE WHEN present IS NULL THEN format('Run: %sCREATE EXTENSION id_gen SCHEMA %s; or undo', CASE WHEN has_schema THEN '' ELSE format('CREATE SCHEMA %s; ', @extschema_text@) END, @extschema_text@)
                        WHEN has_schema THEN 'Undo'
                        ELSE format('Run: ALTER SCHEMA %s RENAME TO %s; or undo', present, @extschema_text@) END
                   || format(' the job: CALL id_gen_convert.undo(%s);', id_gen_convert.arguments(j.relation, j.column_name));
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_extension(id_gen_convert.job) IS 'reject a job without the extension id_gen where it was';

CREATE FUNCTION id_gen_convert.check_columns(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    missing text;
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
BEGIN
    SELECT string_agg(format('%I of %s', name, m.relation), ', ' ORDER BY m.relation::text, name) INTO missing
      FROM id_gen_convert.member m JOIN pg_class c ON c.oid = m.relation,
           unnest(ARRAY[m.column_name, CASE j.phase WHEN 'switched' THEN m.old_name ELSE m.new_name END]) AS name
     WHERE m.job = j.id AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = m.relation AND attname = name);
    IF missing IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('columns have been renamed or dropped since the job of column %I of relation %s began', j.column_name, j.relation),
            DETAIL = format('Missing columns: %s.', missing),
            HINT = 'Rename the columns back with ALTER TABLE, and run the command again. If they were dropped, '
                   || CASE j.phase WHEN 'switched' THEN format('keep the other columns: SELECT id_gen_convert.finish(%s);', arguments)
                          ELSE format('undo the job: CALL id_gen_convert.undo(%s);', arguments) END;
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_columns(id_gen_convert.job) IS 'reject a job whose columns have been renamed or dropped';

-- The end of a job drops columns by their names, and does not miss one that was dropped before: new ones in an undo, old ones otherwise.
CREATE FUNCTION id_gen_convert.check_dropped_columns(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    is_finish boolean := j.phase = 'switched';
    renamed text;
    remedy text;
BEGIN
    SELECT string_agg(format('%I of %s to %I', given.name, m.relation, a.attname), ', ' ORDER BY m.relation::text, given.name),
           string_agg(format('ALTER TABLE %s RENAME COLUMN %I TO %I;', m.relation, a.attname, given.name), ' ' ORDER BY m.relation::text, given.name)
      INTO renamed, remedy
      FROM id_gen_convert.member m,
           LATERAL (SELECT CASE WHEN is_finish THEN m.old_name ELSE m.new_name END, CASE WHEN is_finish THEN m.old_column ELSE m.new_column END) AS given (name, number)
      JOIN pg_attribute a ON format('%s %s', a.attrelid, a.attnum) = given.number
     WHERE m.job = j.id AND a.attrelid = m.relation AND NOT a.attisdropped AND a.attname <> given.name;
    IF renamed IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('%s columns of the job of column %I of relation %s have been renamed', CASE WHEN is_finish THEN 'old' ELSE 'new' END, j.column_name, j.relation),
            DETAIL = format('Renamed columns: %s.', renamed),
            -- Triggers depend on the old columns.
            HINT = format('Rename the columns back%s, and run the command again. To rename them: %s', CASE WHEN is_finish THEN '' ELSE ' or drop them' END, remedy);
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_dropped_columns(id_gen_convert.job) IS 'reject the end of a job if the columns that it drops have been renamed';

CREATE FUNCTION id_gen_convert.check_owners(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    lost text;
    remedy text;
BEGIN
    SELECT string_agg(format('%s of role %I', c.oid::regclass, pg_get_userbyid(c.relowner)), ', ' ORDER BY c.oid::regclass::text),
           string_agg(format('ALTER TABLE %s OWNER TO %I;', c.oid::regclass, current_user), ' ' ORDER BY c.oid::regclass::text)
      INTO lost, remedy
      FROM pg_class c
     WHERE c.oid IN (SELECT relation FROM id_gen_convert.member WHERE job = j.id) AND NOT pg_has_role(c.relowner, 'USAGE');
    IF lost IS NOT NULL THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('tables of the job of column %I of relation %s belong to another role', j.column_name, j.relation),
            DETAIL = format('Tables: %s.', lost),
            HINT = format('A superuser can run: %s', remedy);
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_owners(id_gen_convert.job) IS 'reject a job whose tables have been given to another role';

-- Rows that are hidden would be left out in silence. Locked, no table gets row security until the transaction ends.
CREATE FUNCTION id_gen_convert.check_row_security(j id_gen_convert.job, is_locking boolean) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    each regclass;
    hidden text;
    remedy text;
BEGIN
    FOR each IN
        SELECT m.relation FROM id_gen_convert.member m JOIN pg_class c ON c.oid = m.relation WHERE m.job = j.id AND is_locking
    LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', each);
    END LOOP;
    SELECT string_agg(name::text, ', ' ORDER BY name::text), string_agg(format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY;', name), ' ' ORDER BY name::text)
      INTO hidden, remedy
      FROM (SELECT m.relation FROM id_gen_convert.member m WHERE m.job = j.id
             UNION SELECT id_gen_convert.parts(m.relation) FROM id_gen_convert.member m WHERE m.job = j.id) AS part (name)
      JOIN pg_class c ON c.oid = part.name
     WHERE row_security_active(c.oid);
    IF hidden IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('row security hides rows from the job of column %I of relation %s', j.column_name, j.relation),
            DETAIL = format('Tables: %s.', hidden),
            HINT = format('Until the job has ended, run: %s', remedy);
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_row_security(id_gen_convert.job, boolean) IS 'reject a job while row security hides rows from it';

-- The job of a column, locked. Whoever reads rows of its tables requires its columns and all of these rows.
CREATE FUNCTION id_gen_convert.locked_job(relation regclass, column_name text, is_reading boolean DEFAULT false) RETURNS id_gen_convert.job
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job;
BEGIN
    PERFORM id_gen_convert.check_role();
    PERFORM set_config('lock_timeout', '0', true);
    SELECT k.* INTO j FROM id_gen_convert.job k
     WHERE k.relation = locked_job.relation AND k.column_name = locked_job.column_name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE undefined_object USING
            MESSAGE = format('column %I of relation %s is not being converted', column_name, relation),
            HINT = 'To list the jobs: SELECT relation, column_name, phase FROM id_gen_convert.job;';
    END IF;
    PERFORM id_gen_convert.check_names(j);
    PERFORM id_gen_convert.check_owners(j);
    IF is_reading AND j.phase <> 'returned' THEN
        PERFORM id_gen_convert.check_key(j);
        PERFORM id_gen_convert.check_columns(j);
        PERFORM id_gen_convert.check_row_security(j, false);
        IF j.phase <> 'switched' THEN
            PERFORM id_gen_convert.check_extension(j);
        END IF;
    END IF;
    RETURN j;
END $$;
COMMENT ON FUNCTION id_gen_convert.locked_job(regclass, text, boolean) IS 'job of a column, locked until the transaction ends';

CREATE FUNCTION id_gen_convert.wrong_phase(j id_gen_convert.job, wanted text) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
BEGIN
    RAISE object_not_in_prerequisite_state USING
        MESSAGE = format('the job of column %I of relation %s is in phase %s', j.column_name, j.relation, j.phase),
        DETAIL = format('This command requires phase %s.', wanted),
        HINT = CASE
            WHEN j.phase = 'switched' THEN format('To undo the switch: CALL id_gen_convert.undo(%1$s); to keep the new column: SELECT id_gen_convert.finish(%1$s);', arguments)
            WHEN j.phase = 'returned' THEN format('Continue the undo: CALL id_gen_convert.undo(%s);', arguments)
            ELSE format('For the remaining steps: SELECT statement FROM id_gen_convert.todo(%s);', arguments) END;
END $$;
COMMENT ON FUNCTION id_gen_convert.wrong_phase(id_gen_convert.job, text) IS 'reject a command that does not fit the phase of the job';

-- Locks tables with their partitions, and other relations without, those that are there. A try takes 400 ms at the most for
-- all of them, and gives up what it has before the next, so that nobody waits long behind them. Others who lock the same in
-- another order wait for what is locked first while they hold what is locked next. Most come to what is referred to first, and
-- to the others last; every other try takes another order. Raises what the last one met.
CREATE FUNCTION id_gen_convert.lock_tables(
        tables text[], lock_mode text, others text[] DEFAULT '{}', tries integer DEFAULT 40) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    try integer := 1;
    each record;
    until timestamptz;
BEGIN
    LOOP
        BEGIN
            -- Nobody who reads or writes waits behind this lock. It waits for longer than deadlock_timeout, when PostgreSQL ends an
            -- autovacuum that is in the way.
            PERFORM set_config('lock_timeout', '3s', true);
            FOR each IN SELECT to_regclass(name) AS name FROM unnest(tables) AS name WHERE to_regclass(name) IS NOT NULL LOOP
                EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', each.name);
            END LOOP;
            until := clock_timestamp() + interval '400 ms';
            FOR each IN
                WITH RECURSIVE given AS (
                    SELECT to_regclass(name)::oid AS oid, place, false AS is_other FROM unnest(tables) WITH ORDINALITY AS t (name, place)
                     UNION ALL
                    SELECT to_regclass(name)::oid, 1000 * CASE try % 4 WHEN 0 THEN -1 ELSE 1 END + place, true
                      FROM unnest(others) WITH ORDINALITY AS o (name, place)),
                part AS (
                    SELECT * FROM given UNION ALL
                    SELECT i.inhrelid, p.place, false FROM part p JOIN pg_inherits i ON i.inhparent = p.oid AND NOT p.is_other)
                SELECT p.oid::regclass AS name, c.relkind, pg_get_userbyid(c.relowner) AS owner, s.seqcache
                  FROM part p JOIN pg_class c USING (oid) LEFT JOIN pg_sequence s ON s.seqrelid = p.oid
                 -- Those of another role are named by later checks.
                 WHERE NOT p.is_other OR pg_has_role(c.relowner, 'USAGE')
                 ORDER BY CASE try % 4 WHEN 2 THEN random() ELSE place END, p.oid
            LOOP
                PERFORM set_config('lock_timeout', greatest(extract(epoch FROM until - clock_timestamp()) * 1000, 1)::integer::text, true);
                -- LOCK would lock all that a view reads, too, and locks no sequence. These change nothing.
                EXECUTE CASE each.relkind
                    WHEN 'v' THEN format('ALTER VIEW %s OWNER TO %I', each.name, each.owner)
                    WHEN 'S' THEN format('ALTER SEQUENCE %s CACHE %s', each.name, each.seqcache)
                    ELSE format('LOCK TABLE ONLY %s IN %s MODE', each.name, lock_mode) END;
            END LOOP;
            PERFORM set_config('lock_timeout', '400ms', true);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            IF try >= tries THEN
                RAISE lock_not_available USING
                    MESSAGE = format('could not lock %s', array_to_string(tables || others, ', ')),
                    DETAIL = format('Each of %s attempts waited for 400 ms. Nothing was changed.', tries),
                    HINT = format('Run the command again when no long transaction uses these tables. To list the sessions that use them: SELECT a.pid, l.mode, coalesce(a.query, ''prepared transaction '' || p.gid) FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid) LEFT JOIN (pg_locks t JOIN pg_prepared_xacts p ON p.transaction = t.transactionid) ON l.pid IS NULL AND t.virtualtransaction = l.virtualtransaction WHERE l.relation = ANY (%L::regclass[]);', tables || others);
            END IF;
        END;
        try := try + 1;
        PERFORM pg_sleep(0.2 + random() * 0.4);
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_convert.lock_tables(text[], text, text[], integer) IS 'lock tables, views and sequences, blocking other sessions for at most 400 ms at a time';

-- Runs one statement, unless its table is gone. On the way back or to the end, objects may stand in its way that others have
-- dropped, renamed or made since it was written down: the error names the statement.
CREATE FUNCTION id_gen_convert.execute_statement(s id_gen_convert.statement) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job;
    arguments text;
    dependents text;
BEGIN
    IF s.made_on NOT IN (SELECT oid FROM pg_class) THEN
        RETURN;
    END IF;
    -- These read rows, and no definitions.
    IF s.made IS NULL AND s.phase IN ('check', 'revalidate') THEN
        PERFORM id_gen_convert.use_settings_of_session();
    END IF;
    EXECUTE s.statement;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RAISE;
WHEN OTHERS THEN
    SELECT * INTO j FROM id_gen_convert.job WHERE id = s.job;
    IF s.object IS NOT NULL AND s.phase <> 'unswitch' THEN
        PERFORM id_gen_convert.refuse_losses(j, format('%s could not be recreated (%s): %s', s.object, SQLERRM, s.remedy));
    END IF;
    -- Dependent objects, integrity constraints, schemas, and names or privileges.
    IF s.phase NOT IN ('unswitch', 'revalidate', 'finish', 'keep') OR SQLSTATE !~ '^(2B|23|3F|42)' THEN
        RAISE;
    END IF;
    GET STACKED DIAGNOSTICS dependents = PG_EXCEPTION_DETAIL;
    arguments := id_gen_convert.arguments(j.relation, j.column_name);
    RAISE object_not_in_prerequisite_state USING
        MESSAGE = format('could not run a statement to %s the job of column %I of relation %s',
                         CASE WHEN s.phase IN ('unswitch', 'revalidate') THEN 'undo' ELSE 'finish' END, j.column_name, j.relation),
        DETAIL = concat_ws('. ', SQLERRM, nullif(rtrim(dependents, '.'), ''), 'The statement: ' || s.statement),
        HINT = CASE left(SQLSTATE, 2)
                   WHEN '2B' THEN 'Drop the objects that depend on the old columns'
                   WHEN '23' THEN 'Correct the rows that violate the constraint'
                   ELSE 'Recreate or rename back what the statement names, or grant the privileges that it needs' END
               || ', and run the command again.'
               || CASE s.phase WHEN 'unswitch' THEN format(' To keep the new column: SELECT id_gen_convert.finish(%s);', arguments)
                      WHEN 'finish' THEN format(' To keep the old columns, too: SELECT id_gen_convert.finish(%s, keep_old => true);', arguments)
                      ELSE '' END;
END $$;
COMMENT ON FUNCTION id_gen_convert.execute_statement(id_gen_convert.statement) IS 'run a statement; names it if it fails on the way back or to the end';

CREATE FUNCTION id_gen_convert.execute_all(job_id integer, of_phase text) RETURNS void
    LANGUAGE plpgsql @settings@ SET client_min_messages = warning
    AS $$
DECLARE
    each id_gen_convert.statement;
BEGIN
    FOR each IN SELECT * FROM id_gen_convert.statement WHERE job = job_id AND phase = of_phase ORDER BY place LOOP
        PERFORM id_gen_convert.execute_statement(each);
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_convert.execute_all(integer, text) IS 'run the statements of a phase';

-- Whether a table has the index or constraint of a statement.
CREATE FUNCTION id_gen_convert.is_made(s id_gen_convert.statement) RETURNS boolean
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT EXISTS (SELECT FROM pg_constraint WHERE conrelid = s.made_on AND conname = s.made)
            OR EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = s.made_on AND c.relname = s.made)
    $$;
COMMENT ON FUNCTION id_gen_convert.is_made(id_gen_convert.statement) IS 'whether the index or constraint of a statement exists';

-- Runs one statement, with the locks that it takes; unless what it makes is there, as where a job is sent back to fill rows.
-- A check is compared with the one that it is like before the lock is released: whoever writes a row calls its functions.
CREATE FUNCTION id_gen_convert.execute_one(s id_gen_convert.statement) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job;
    was text[];
    became text[];
BEGIN
    IF id_gen_convert.is_made(s) THEN
        RETURN;
    END IF;
    IF s.lock_mode IS NOT NULL THEN
        PERFORM id_gen_convert.lock_tables(s.tables, s.lock_mode);
    END IF;
    PERFORM id_gen_convert.execute_statement(s);
    IF s.object IS NOT NULL THEN
        SELECT * INTO j FROM id_gen_convert.job WHERE id = s.job;
        SELECT id_gen_convert.used_by('pg_constraint'::regclass, k.oid, k.conbin::text, ARRAY[s.made_on::oid]) INTO was
          FROM pg_constraint k, pg_identify_object('pg_constraint'::regclass, k.oid, 0) AS named
         WHERE k.conrelid = s.made_on AND s.object = named.type || ' ' || named.identity;
        SELECT id_gen_convert.used_by('pg_constraint'::regclass, oid, conbin::text, ARRAY[s.made_on::oid]) INTO became
          FROM pg_constraint WHERE (conrelid, conname) = (s.made_on, s.made);
        PERFORM id_gen_convert.refuse_losses(j, CASE
                    WHEN was IS NOT NULL THEN id_gen_convert.other_meanings(s.job, jsonb_build_object(s.object, was), jsonb_build_object(s.object, became))
                    -- Without functions and operators of users there is nothing to compare.
                    WHEN became <> '{}' THEN s.object || ' was dropped or renamed since the start: create it again, or rename it back' END);
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.execute_one(id_gen_convert.statement) IS 'run one statement of a job';

-- Who else than its owner may do what with something, in an order of its own.
CREATE FUNCTION id_gen_convert.privileges(acl aclitem[], owner oid) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT string_agg(text, ', ' ORDER BY text)
          FROM (SELECT concat_ws(' ', CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(x.grantee) END, x.privilege_type, x.is_grantable)
                  FROM aclexplode(acl) AS x WHERE x.grantee <> owner) AS granted (text)
    $$;
COMMENT ON FUNCTION id_gen_convert.privileges(aclitem[], oid) IS 'privileges of others than the owner';

-- Takes from other roles than its owner what default privileges have given them on a view that was just made: those of the
-- role that made it, in all schemas or in this one.
CREATE FUNCTION id_gen_convert.revoke_defaults(view regclass) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    each text;
BEGIN
    FOR each IN
        SELECT DISTINCT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END
          FROM pg_class c, LATERAL aclexplode(c.relacl) AS x WHERE c.oid = view AND x.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', view, each);
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_convert.revoke_defaults(regclass) IS 'revoke the default privileges of other roles on a view';

-- What depends on the columns of a job, with its definition, and what the columns have besides values; without what the job
-- itself has made. What partitions have from their table is marked, as partitions come and go after the switch.
-- Definitions have no OIDs in them: what has been made again, or restored from a dump, is the same.
CREATE FUNCTION id_gen_convert.dependents(job_id integer) RETURNS text[]
    LANGUAGE sql STABLE @settings@
    AS $$
        WITH RECURSIVE place (relation, number) AS (
            SELECT a.attrelid, a.attnum FROM id_gen_convert.member m JOIN pg_attribute a
                ON a.attname IN (m.column_name, m.new_name)
               AND (a.attrelid = m.relation OR a.attrelid IN (SELECT id_gen_convert.parts(m.relation)))
             WHERE m.job = job_id),
        direct AS (
            SELECT DISTINCT d.classid, d.objid FROM place p
              JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relation AND d.refobjsubid = p.number),
        view (oid) AS (
            SELECT r.ev_class FROM direct d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid AND r.rulename = '_RETURN'
             UNION
            SELECT r.ev_class FROM view v
              JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = v.oid
              JOIN pg_rewrite r ON r.oid = d.objid AND r.rulename = '_RETURN'),
        used (classid, objid) AS (
            SELECT classid, objid FROM direct
             UNION
            SELECT d.classid, d.objid FROM view v
              JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = v.oid AND d.deptype IN ('n', 'a')),
        found (what, is_inherited, definition) AS (
            SELECT CASE c.relkind WHEN 'm' THEN 'materialized view ' ELSE 'view ' END || c.oid::regclass, false,
                   concat_ws(' ', pg_get_viewdef(c.oid), pg_get_userbyid(c.relowner), id_gen_convert.privileges(c.relacl, c.relowner),
                             c.reloptions::text, obj_description(c.oid, 'pg_class'),
                             (SELECT string_agg(concat_ws(' ', attname, id_gen_convert.privileges(attacl, c.relowner), col_description(c.oid, attnum)), ', ' ORDER BY attnum)
                                FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0))
              FROM view JOIN pg_class c USING (oid)
             UNION ALL
            SELECT format('column %s.%I', c.oid::regclass, a.attname), false,
                   -- Options that begin with pg_ are those of PostgreSQL, such as the version of the attribute.
                   concat_ws(' ', a.attnotnull, (SELECT string_agg(name, ', ' ORDER BY name) FROM unnest(a.attoptions) AS name WHERE name !~ '^pg_'),
                             nullif(a.attstattarget, -1), pg_get_expr(e.adbin, e.adrelid),
                             id_gen_convert.privileges(a.attacl, c.relowner), col_description(c.oid, a.attnum))
              FROM id_gen_convert.member m JOIN pg_class c ON c.oid = m.relation
              JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname IN (m.column_name, m.new_name)
              LEFT JOIN pg_attrdef e ON e.adrelid = c.oid AND e.adnum = a.attnum
             WHERE m.job = job_id
             UNION ALL
            SELECT format('replica identity of %s', c.oid::regclass), false,
                   concat_ws(' ', c.relreplident, (SELECT i.indexrelid::regclass FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident))
              FROM id_gen_convert.member m JOIN pg_class c ON c.oid = m.relation WHERE m.job = job_id
             UNION ALL
            SELECT pg_describe_object(d.classid, d.objid, 0),
                   coalesce(k.coninhcount > 0, c.relispartition, t.tgparentid <> 0,
                            e.adrelid NOT IN (SELECT m.relation FROM id_gen_convert.member m WHERE m.job = job_id), false),
                   concat_ws(' ', pg_get_constraintdef(k.oid), pg_get_indexdef(i.indexrelid), obj_description(i.indexrelid, 'pg_class'), i.indisclustered, c.relispartition AND i.indisreplident,
                             (SELECT spcname FROM pg_tablespace WHERE oid = (SELECT reltablespace FROM pg_class WHERE oid = i.indexrelid)), pg_get_triggerdef(t.oid), t.tgenabled,
                             pg_get_userbyid(s.stxowner), to_jsonb(s) ->> 'stxstattarget',
                             pg_get_statisticsobjdef(s.oid), pg_get_ruledef(r.oid),
                             p.polpermissive, p.polcmd, pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid),
                             (SELECT string_agg(pg_get_userbyid(role), ', ' ORDER BY pg_get_userbyid(role)) FROM unnest(p.polroles) AS role),
                             obj_description(d.objid, d.classid::regclass::text))
              FROM used d
              LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
              LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind IN ('i', 'I')
              LEFT JOIN pg_index i ON i.indexrelid = coalesce(c.oid, CASE WHEN k.contype IN ('p', 'u') THEN k.conindid END)
              LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
              LEFT JOIN pg_policy p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
              LEFT JOIN pg_statistic_ext s ON d.classid = 'pg_statistic_ext'::regclass AND s.oid = d.objid
              LEFT JOIN pg_attrdef e ON d.classid = 'pg_attrdef'::regclass AND e.oid = d.objid
              LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
             WHERE r.rulename IS DISTINCT FROM '_RETURN'
               -- PostgreSQL 18 makes one of each column that is NOT NULL, also where a dump of an older one is restored.
               AND k.contype IS DISTINCT FROM 'n'
               AND NOT EXISTS (SELECT FROM id_gen_convert.statement s WHERE s.job = job_id AND s.phase <> 'unswitch' AND s.made IN (k.conname, c.relname))
               AND NOT EXISTS (SELECT FROM pg_proc f WHERE f.oid = t.tgfoid AND f.pronamespace = 'id_gen_convert'::regnamespace))
        SELECT coalesce(array_agg(concat_ws(' ', what, md5(coalesce(definition, '')), CASE WHEN is_inherited THEN 'inherited' END)), '{}') FROM found
    $$;
COMMENT ON FUNCTION id_gen_convert.dependents(integer) IS 'objects that depend on the columns of a job, each with a hash of its definition';

-- What of it came, changed or went since the job began, or since its switch; how to take back what came, which an undo cannot
-- revert; and what of that may have had another name before. Each is NULL if there is nothing.
CREATE FUNCTION id_gen_convert.changes(j id_gen_convert.job, OUT changed text, OUT added text, OUT renamed text)
    LANGUAGE sql STABLE @settings@
    AS $$
        WITH entry (text, is_known) AS (
            SELECT unnest(id_gen_convert.dependents(j.id)), false UNION ALL SELECT unnest(j.dependents), true),
        object AS (
            SELECT name, split_part(name, ' ', 1) AS kind, bool_and(is_known) AS is_gone, NOT bool_or(is_known) AS is_added
              FROM entry, regexp_replace(text, ' [0-9a-f]{32}( inherited)?$', '') AS name
             GROUP BY name
            -- After the switch, partitions come and go, with what they have from their table.
            HAVING NOT (j.phase = 'switched' AND bool_and(text ~ ' inherited$') AND bool_and(is_known) = bool_or(is_known))
               AND array_agg(text ORDER BY text) FILTER (WHERE is_known) IS DISTINCT FROM array_agg(text ORDER BY text) FILTER (WHERE NOT is_known))
        SELECT string_agg(name, ', ' ORDER BY name),
               -- A sequence that was given to the new column still fills the old one.
               string_agg(CASE kind WHEN 'sequence' THEN format('run ALTER SEQUENCE %s OWNED BY %s.%I', substr(name, 10), j.relation,
                                    (SELECT m.old_name FROM id_gen_convert.member m WHERE (m.job, m.relation, m.column_name) = (j.id, j.relation, j.column_name)))
                               ELSE 'drop ' || name END, ', ' ORDER BY name) FILTER (WHERE is_added),
               string_agg(name, ', ' ORDER BY name) FILTER (WHERE is_added AND EXISTS (SELECT FROM object g WHERE g.is_gone AND g.kind = object.kind))
          FROM object
    $$;
COMMENT ON FUNCTION id_gen_convert.changes(id_gen_convert.job) IS 'dependent objects added, changed or dropped since the job began, or its switch';

-- Columns, constraints and indexes without which a job that has switched cannot be undone, and which are not there any more. Those of
-- tables that are gone are not needed. NULL if there are none.
CREATE FUNCTION id_gen_convert.lacking(job_id integer) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT string_agg(what, ', ' ORDER BY what)
          FROM (SELECT format('column %I of %s', name, m.relation)
                  FROM id_gen_convert.member m JOIN pg_class ON oid = m.relation, unnest(ARRAY[m.column_name, m.old_name]) AS name
                 WHERE m.job = job_id AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = m.relation AND attname = name)
                 UNION
                SELECT format('constraint or index %I of %s', s.made, s.made_on)
                  FROM id_gen_convert.statement s JOIN pg_class ON oid = s.made_on
                 WHERE s.job = job_id AND s.phase = 'unswitch' AND s.made IS NOT NULL AND NOT id_gen_convert.is_made(s)) AS needed (what)
    $$;
COMMENT ON FUNCTION id_gen_convert.lacking(integer) IS 'columns, constraints and indexes that an undo of a switch needs and that are not there';

-- What a switch, or an undo of it, would lose or break: the plan refuses the same. NULL if nothing.
CREATE FUNCTION id_gen_convert.losses(job_id integer) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $losses$
        SELECT string_agg(DISTINCT object || ' ' || reason, '; ') FROM (@losses@) AS lost (object, reason)
    $losses$;
COMMENT ON FUNCTION id_gen_convert.losses(integer) IS 'objects that a switch or an undo would lose or break, and the remedies';

-- Triggers of others that would fire for each row that a job writes. NULL if there are none.
CREATE FUNCTION id_gen_convert.firing(job_id integer) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $firing$
        SELECT string_agg(DISTINCT object || ' ' || reason, '; ') FROM (@firing@) AS firing (object, reason)
    $firing$;
COMMENT ON FUNCTION id_gen_convert.firing(integer) IS 'triggers that would fire for each row that a job writes, and the remedies';

-- Rejects a start, a switch or an undo for objects that it would lose or break; NULL if there are none.
CREATE FUNCTION id_gen_convert.refuse_losses(j id_gen_convert.job, obstacles text) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
    is_back boolean := j.phase = 'switched';
BEGIN
    IF obstacles IS NULL THEN
        RETURN;
    END IF;
    IF j.phase = 'fill' THEN
        RAISE feature_not_supported USING
            MESSAGE = format('column %s.%I cannot be converted online', j.relation, j.column_name),
            DETAIL = format('Obstacles: %s.', obstacles),
            HINT = 'Remove the obstacles; what is still needed can be recreated after the conversion.';
    END IF;
    RAISE object_not_in_prerequisite_state USING
        MESSAGE = format('the %s would lose or break objects that depend on column %I of relation %s',
                         CASE WHEN is_back THEN 'undo' ELSE 'switch' END, j.column_name, j.relation),
        DETAIL = format('Obstacles: %s.', obstacles),
        HINT = CASE WHEN is_back
            THEN format('Remove the obstacles; what is still needed can be recreated after the undo. To keep the new column: SELECT id_gen_convert.finish(%s);', arguments)
            ELSE format('Remove the obstacles; what is still needed can be recreated after the conversion. To undo the job: CALL id_gen_convert.undo(%s);', arguments) END;
END $$;
COMMENT ON FUNCTION id_gen_convert.refuse_losses(id_gen_convert.job, text) IS 'reject what would lose or break objects';

-- What rows are computed with, such as generated columns, may depend on settings although PostgreSQL takes it for immutable, such as a
-- date of the time zone. For these, the rest of the function that calls this has those that a new session has.
CREATE FUNCTION id_gen_convert.use_settings_of_session() RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    @defaults@
END $$;
COMMENT ON FUNCTION id_gen_convert.use_settings_of_session() IS 'set what stored values may depend on to the defaults of the session';

-- Which functions, operators and collations an expression names, in its order. PostgreSQL chooses again among overloads when it
-- reads the text of a definition. Its own are left out: those of one name mean the same for every type. Each has its OID, which
-- stays when it is renamed and another one gets its name, and its name with its arguments, since a restored dump has other OIDs.
CREATE FUNCTION id_gen_convert.used(tree text) RETURNS text[]
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT ARRAY(SELECT used[2] || ' ' || CASE used[1] WHEN 'opno' THEN 'operator ' || used[2]::regoperator WHEN 'collOid' THEN 'collation ' || used[2]::regcollation
                                                           ELSE 'function ' || used[2]::regprocedure END
                       FROM regexp_matches(tree, ':(funcid|aggfnoid|winfnoid|opno|collOid) (\d+)', 'g') WITH ORDINALITY AS found (used, place)
                      -- PostgreSQL's own have lower OIDs.
                      WHERE used[2]::oid >= 16384 ORDER BY place)
    $$;
COMMENT ON FUNCTION id_gen_convert.used(text) IS 'functions, operators and collations that an expression names';

-- The same of an object, with what else its definition finds by name: operator classes, types, configurations and dictionaries of text
-- search, schemas, and relations with their columns, other than those that are made again or changed. These are in no order. Last come
-- functions, operators and collations that it does not call, such as constants of type regprocedure. Those of an index stay.
CREATE FUNCTION id_gen_convert.used_by(class oid, object oid, tree text, own oid[]) RETURNS text[]
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT id_gen_convert.used(tree) || ARRAY(
            SELECT DISTINCT concat(d.refobjid, '.' || nullif(part.number, 0), ' ', named.type, ' ', named.identity)
              FROM pg_depend d LEFT JOIN pg_class c ON d.refclassid = 'pg_class'::regclass AND c.oid = d.refobjid,
                   unnest(ARRAY[0, d.refobjsubid]) AS part (number), pg_identify_object(d.refclassid, d.refobjid, part.number) AS named
             WHERE (d.classid, d.objid) = (used_by.class, used_by.object)
               AND CASE d.refclassid
                       -- Default classes of two types have one meaning.
                       WHEN 'pg_opclass'::regclass THEN NOT (SELECT opcdefault FROM pg_opclass WHERE oid = d.refobjid)
                       WHEN 'pg_type'::regclass THEN true
                       WHEN 'pg_ts_config'::regclass THEN d.refobjid >= 16384
                       WHEN 'pg_ts_dict'::regclass THEN d.refobjid >= 16384
                       WHEN 'pg_namespace'::regclass THEN true
                       WHEN 'pg_class'::regclass THEN c.relkind NOT IN ('i', 'I') AND c.oid <> ALL (own) END)
            || ARRAY(
            SELECT other FROM (
                SELECT DISTINCT d.refobjid || CASE d.refclassid WHEN 'pg_operator'::regclass THEN ' operator ' || d.refobjid::regoperator
                                                   WHEN 'pg_collation'::regclass THEN ' collation ' || d.refobjid::regcollation
                                                   ELSE ' function ' || d.refobjid::regprocedure END
                  FROM pg_depend d
                 WHERE (d.classid, d.objid) = (used_by.class, used_by.object) AND d.classid <> 'pg_class'::regclass AND d.refobjid >= 16384
                   AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_collation'::regclass)) AS found (other)
             WHERE other <> ALL (id_gen_convert.used(tree)) ORDER BY substr(other, strpos(other, ' ')))
    $$;
COMMENT ON FUNCTION id_gen_convert.used_by(oid, oid, text, oid[]) IS 'what the definition of an object names';

-- The same of all definitions that are made again over the columns of a job.
CREATE FUNCTION id_gen_convert.meanings(job_id integer, of_twins boolean DEFAULT false) RETURNS jsonb
    LANGUAGE sql STABLE @settings@
    AS $$
        WITH RECURSIVE place (relation, number, is_key) AS (
            SELECT a.attrelid, a.attnum, (m.relation, m.column_name) = (j.relation, j.column_name)
              FROM id_gen_convert.job j JOIN id_gen_convert.member m ON m.job = j.id JOIN pg_attribute a ON a.attname = m.column_name
               AND (a.attrelid = m.relation OR a.attrelid IN (SELECT id_gen_convert.parts(m.relation)))
             WHERE j.id = job_id),
        direct AS (
            SELECT DISTINCT d.classid, d.objid FROM place p
              JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relation AND d.refobjsubid = p.number),
        view (oid) AS (
            SELECT r.ev_class FROM direct d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid AND r.rulename = '_RETURN'
             UNION
            SELECT r.ev_class FROM view v
              JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = v.oid
              JOIN pg_rewrite r ON r.oid = d.objid AND r.rulename = '_RETURN'),
        -- Each under the name of another object where that is to be compared.
        object (named_class, named_id, classid, objid, tree) AS (
            SELECT 'pg_class'::regclass::oid, r.ev_class, 'pg_rewrite'::regclass::oid, r.oid, r.ev_action::text
              FROM view JOIN pg_rewrite r ON r.ev_class = view.oid AND r.rulename = '_RETURN'
             UNION ALL
            SELECT d.classid, d.objid, d.classid, d.objid,
                   concat(p.polqual::text, p.polwithcheck::text, t.tgqual::text, ' :funcid ' || t.tgfoid, s.stxexprs::text, k.conbin::text, i.indexprs::text, i.indpred::text, e.adbin::text)
              FROM direct d
              LEFT JOIN pg_policy p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
              LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
              LEFT JOIN pg_statistic_ext s ON d.classid = 'pg_statistic_ext'::regclass AND s.oid = d.objid
              LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid AND k.contype = 'c'
              LEFT JOIN pg_index i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid
              -- The key gets another default.
              LEFT JOIN pg_attrdef e ON d.classid = 'pg_attrdef'::regclass AND e.oid = d.objid
                   AND (e.adrelid, e.adnum) NOT IN (SELECT relation, number FROM place WHERE is_key)
             WHERE coalesce(p.oid, t.oid, s.oid, k.oid, i.indexrelid, e.oid) IS NOT NULL
             UNION ALL
            -- The checks of a rehearsal, each in place of the index that it is like, with the operator classes of that.
            SELECT 'pg_class'::regclass, i.indexrelid, 'pg_class'::regclass, i.indexrelid, k.conbin::text
              FROM pg_index i JOIN pg_constraint k ON (k.conrelid, k.conname) = (i.indrelid, 'id_gen_convert_like_' || i.indexrelid)
             UNION ALL
            -- The new indexes of the job, likewise.
            SELECT 'pg_class'::regclass, old.oid, 'pg_class'::regclass, new.oid, concat(i.indexprs::text, i.indpred::text)
              FROM id_gen_convert.statement s JOIN pg_index i ON i.indrelid = s.made_on
              JOIN pg_class new ON new.oid = i.indexrelid AND new.relname = s.made
              JOIN pg_class old ON old.relnamespace = new.relnamespace AND EXISTS (
                       SELECT FROM id_gen_convert.statement w WHERE w.job = job_id AND w.phase = 'switch'
                          AND w.statement = format('ALTER INDEX %s RENAME TO %I', new.oid::regclass, old.relname))
             WHERE s.job = job_id AND of_twins)
        SELECT coalesce(jsonb_object_agg(named.type || ' ' || named.identity, to_jsonb(
                   id_gen_convert.used_by(object.classid, object.objid, tree, own)
                   -- Its owner, those of its privileges, and those that a policy is for.
                   || ARRAY(SELECT concat_ws(' ', r.oid, 'role', quote_ident(r.rolname))
                              FROM pg_roles r
                             WHERE r.oid IN (
                                SELECT relowner FROM pg_class WHERE named_class = 'pg_class'::regclass AND pg_class.oid = named_id AND relkind = 'v'
                                 UNION ALL
                                SELECT x.grantee FROM pg_class c, aclexplode(c.relacl) AS x WHERE named_class = 'pg_class'::regclass AND c.oid = named_id AND c.relkind = 'v'
                                 UNION ALL
                                SELECT x.grantee FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) AS x
                                 WHERE named_class = 'pg_class'::regclass AND c.oid = named_id AND c.relkind = 'v'
                                 UNION ALL
                                SELECT stxowner FROM pg_statistic_ext WHERE named_class = 'pg_statistic_ext'::regclass AND pg_statistic_ext.oid = named_id
                                 UNION ALL
                                SELECT unnest(polroles) FROM pg_policy WHERE named_class = 'pg_policy'::regclass AND pg_policy.oid = named_id)))), '{}')
          FROM object, pg_identify_object(named_class, named_id, 0) AS named,
               (SELECT ARRAY(SELECT relation FROM place UNION ALL SELECT oid FROM view)) AS excepted (own)
    $$;
COMMENT ON FUNCTION id_gen_convert.meanings(integer, boolean) IS 'functions and operators that are named by the definitions of what is made again';

-- One list of them, with their places in it, and what tells them apart. Those in no order come last.
CREATE FUNCTION id_gen_convert.meaning(list jsonb, by_name boolean, OUT place bigint, OUT key text, OUT name text) RETURNS SETOF record
    LANGUAGE sql IMMUTABLE @settings@
    AS $$
        SELECT row_number() OVER (ORDER BY CASE WHEN given.name ~ '^(function|operator|collation) ' AND given.name !~ '^operator class ' THEN place END, told.key),
               told.key, given.name
          FROM jsonb_array_elements_text(list) WITH ORDINALITY AS element (used, place), substr(used, strpos(used, ' ') + 1) AS given (name),
               LATERAL (SELECT CASE WHEN by_name THEN given.name ELSE split_part(used, ' ', 1) END) AS told (key)
    $$;
COMMENT ON FUNCTION id_gen_convert.meaning(jsonb, boolean) IS 'functions and operators that a definition names, in its order';

-- Those of one list that another one lacks, or all of them if only their order differs.
CREATE FUNCTION id_gen_convert.unlike(list jsonb, other jsonb, by_name boolean) RETURNS text
    LANGUAGE sql IMMUTABLE @settings@
    AS $$
        SELECT coalesce(string_agg(DISTINCT a.name, ', ') FILTER (WHERE a.key NOT IN (SELECT b.key FROM id_gen_convert.meaning(other, by_name) b)),
                        string_agg(a.name, ', ' ORDER BY a.place), 'none')
          FROM id_gen_convert.meaning(list, by_name) a
    $$;
COMMENT ON FUNCTION id_gen_convert.unlike(jsonb, jsonb, boolean) IS 'functions and operators that another definition does not name';

-- One of them as it is now; NULL if it is gone.
CREATE FUNCTION id_gen_convert.existing(used text, OUT owner oid, OUT name text)
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT e.owner, named.type || ' ' || named.identity
          FROM (SELECT 'function', 'pg_proc'::regclass, oid, 0, proowner FROM pg_proc
                 UNION ALL SELECT 'operator', 'pg_operator'::regclass, oid, 0, oprowner FROM pg_operator
                 UNION ALL SELECT 'operator class', 'pg_opclass'::regclass, oid, 0, opcowner FROM pg_opclass
                 UNION ALL SELECT 'collation', 'pg_collation'::regclass, oid, 0, collowner FROM pg_collation
                 UNION ALL SELECT 'type', 'pg_type'::regclass, oid, 0, typowner FROM pg_type
                 UNION ALL SELECT 'text search configuration', 'pg_ts_config'::regclass, oid, 0, cfgowner FROM pg_ts_config
                 UNION ALL SELECT 'text search dictionary', 'pg_ts_dict'::regclass, oid, 0, dictowner FROM pg_ts_dict
                 UNION ALL SELECT 'schema', 'pg_namespace'::regclass, oid, 0, nspowner FROM pg_namespace
                 -- Those who may create roles can do with them whatever they like.
                 UNION ALL SELECT 'role', 'pg_authid'::regclass, oid, 0, (SELECT oid FROM pg_roles WHERE rolsuper LIMIT 1) FROM pg_roles
                 UNION ALL SELECT 'relation', 'pg_class'::regclass, oid, 0, relowner FROM pg_class
                 UNION ALL SELECT 'relation', 'pg_class'::regclass, c.oid, attnum, relowner
                             FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND NOT attisdropped) AS e (kind, class, oid, number, owner),
               pg_identify_object(e.class, e.oid, e.number) AS named
         WHERE e.oid = substring(used FROM '^\d+')::oid AND e.number = coalesce(substring(used FROM '^\d+\.(\d+)')::integer, 0)
           AND e.kind = coalesce(substring(used FROM '^\S+ (operator class|text search \w+|(?:function|operator|collation|type|schema|role)\M)'), 'relation')
    $$;
COMMENT ON FUNCTION id_gen_convert.existing(text) IS 'owner and present name of what a definition names';

-- A list from before, in which what was dropped is replaced by what was created again under its name. A role that can do with the
-- table whatever it likes gains nothing by that; another one may have used the name after the drop. A relation may also be one that
-- the definition names now.
CREATE FUNCTION id_gen_convert.with_recreated(list jsonb, other jsonb, present jsonb, relation regclass) RETURNS jsonb
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT coalesce(jsonb_agg(CASE WHEN (id_gen_convert.existing(a.used)).owner IS NULL
                                        AND (b.used !~ '^\S+ (function|operator|collation|type|text search|schema|role) ' AND present ? b.used
                                             OR pg_has_role(is_now.owner, current_user, 'MEMBER')
                                             OR pg_has_role(is_now.owner, (SELECT relowner FROM pg_class WHERE oid = relation), 'MEMBER'))
                                       THEN b.used ELSE a.used END ORDER BY place), '[]')
          FROM jsonb_array_elements_text(list) WITH ORDINALITY AS a (used, place)
          LEFT JOIN (SELECT DISTINCT used FROM jsonb_array_elements_text(other) AS each (used)) AS b ON substr(a.used, strpos(a.used, ' ')) = substr(b.used, strpos(b.used, ' ')),
               id_gen_convert.existing(b.used) AS is_now
    $$;
COMMENT ON FUNCTION id_gen_convert.with_recreated(jsonb, jsonb, jsonb, regclass) IS 'what a definition named, or what was created again';

-- The type that has a name now; NULL if there is none, or if this role may not use its schema.
CREATE FUNCTION id_gen_convert.present_type(name text) RETURNS oid
    LANGUAGE plpgsql @settings@
    AS $$
BEGIN
    RETURN to_regtype(name);
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION id_gen_convert.present_type(text) IS 'type that has a name now';

-- Lists from before with the types that have these names now: what is made again reads its constants, which calls functions of
-- their types, before it can be compared.
CREATE FUNCTION id_gen_convert.with_present_types(before jsonb) RETURNS jsonb
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT coalesce(jsonb_object_agg(key, (
                   SELECT coalesce(jsonb_agg(coalesce(id_gen_convert.present_type(substring(used FROM '^\d+ type (.*)')) || substring(used FROM ' .*'), used) ORDER BY place), '[]')
                     FROM jsonb_array_elements_text(value) WITH ORDINALITY AS element (used, place))), '{}')
          FROM jsonb_each(before)
    $$;
COMMENT ON FUNCTION id_gen_convert.with_present_types(jsonb) IS 'what definitions named, with the types that have these names now';

-- Definitions and defaults that an undo would read with a constant of a type that belongs to another role by now: that calls functions
-- of the type. NULL if there are none.
CREATE FUNCTION id_gen_convert.strange_constants(j id_gen_convert.job) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        WITH RECURSIVE part (object, type) AS (
            SELECT coalesce(s.object, 'statement ' || s.statement), id_gen_convert.present_type(named.type)
              FROM id_gen_convert.statement s,
                   (SELECT DISTINCT substring(used FROM '^\d+ type (.*)')
                      FROM jsonb_each(j.meanings), jsonb_array_elements_text(value) AS used) AS named (type)
             WHERE s.job = j.id AND s.phase = 'unswitch'
               AND s.statement ~ ('''::' || regexp_replace(named.type, '(\W)', '\\\1', 'g') || '(?![\w$.[])')
             UNION
            SELECT part.object, inner_type.oid
              FROM part JOIN pg_type t ON t.oid = part.type, @inner_types@)
        SELECT string_agg(DISTINCT format('%s uses type %s of another role, whose functions would be called: if its definition is right, a superuser can run: ALTER TYPE %2$s OWNER TO %I',
                                          part.object, y.oid::regtype, current_user), '; ')
          FROM part JOIN pg_type y ON y.oid = part.type AND y.oid >= 16384
         WHERE y.typtype <> 'e' AND NOT (y.typtype = 'b' AND y.typelem <> 0) AND NOT pg_has_role(y.typowner, current_user, 'MEMBER')
           AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = j.relation AND pg_has_role(y.typowner, c.relowner, 'MEMBER'))
    $$;
COMMENT ON FUNCTION id_gen_convert.strange_constants(id_gen_convert.job) IS 'definitions with constants of types of other roles';

-- Objects that have another meaning after they were made again than before; NULL if there are none. An undo passes the one that they
-- have now.
CREATE FUNCTION id_gen_convert.other_meanings(job_id integer, before jsonb, after jsonb, present jsonb DEFAULT '{}') RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT string_agg(format('%s would use %s in place of %s%s', key, became,
                   CASE was WHEN became THEN 'one that had this name and was renamed or dropped' ELSE was END,
                   ': ' || CASE WHEN j.phase = 'fill'
                       THEN (SELECT s.remedy FROM id_gen_convert.statement s WHERE s.job = job_id AND s.object = key LIMIT 1)
                       -- A job that has begun would miss the object itself. Its new indexes use the function already.
                       ELSE CASE WHEN has_twin AND j.phase <> 'switched' THEN 'undo the job, and then ' ELSE '' END
                            || coalesce(way_back, 'drop or rename ' || became) END), '; ' ORDER BY key)
          FROM id_gen_convert.job j,
               LATERAL (SELECT j.meant_in IS DISTINCT FROM 'id_gen_convert'::regnamespace) AS recorded (by_name),
               LATERAL (
                SELECT key, id_gen_convert.unlike(y.value, x.value, by_name) AS became, id_gen_convert.unlike(x.value, y.value, by_name) AS was,
                       bool_or(key LIKE 'index %') OVER () AS has_twin,
                       (SELECT string_agg(DISTINCT CASE WHEN was_here.name IS NULL THEN format('if its definition is right, a superuser can run: ALTER %s OWNER TO %I', b.name, current_user)
                                                        ELSE format('drop or rename %s, and rename %s back', b.name, was_here.name) END, '; ')
                          FROM id_gen_convert.meaning(x.value, false) a JOIN id_gen_convert.meaning(y.value, false) b USING (name),
                               id_gen_convert.existing(a.key || ' ' || name) AS was_here
                         WHERE NOT by_name AND a.key <> b.key
                           -- Columns go with their table.
                           AND (a.key !~ '\.' OR split_part(a.key, '.', 1) = split_part(b.key, '.', 1))) AS way_back
                  FROM jsonb_each(before) AS old JOIN jsonb_each(after) AS y USING (key),
                       id_gen_convert.with_recreated(old.value, y.value, present -> key, j.relation) AS x (value)
                 WHERE EXISTS (SELECT FROM id_gen_convert.meaning(x.value, by_name) a FULL JOIN id_gen_convert.meaning(y.value, by_name) b USING (place)
                                WHERE a.key IS DISTINCT FROM b.key)) AS other
         WHERE j.id = job_id
    $$;
COMMENT ON FUNCTION id_gen_convert.other_meanings(integer, jsonb, jsonb, jsonb) IS 'objects whose definitions name other functions or operators than before';

-- Indexes of a rehearsal whose functions or operators other roles could overload before a client makes the index, which calls
-- the overload as its owner and as whoever writes a row; NULL if there are none. Nothing is closer than an exact match, and the
-- text of an index has the casts to it. Whoever owns the function can change what it does anyway.
CREATE FUNCTION id_gen_convert.exposed(job_id integer) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        WITH used AS (
            SELECT i.indexrelid::regclass AS index, matched[1] = 'opno' AS is_operator, matched[2]::oid AS oid
              FROM id_gen_convert.statement s JOIN pg_index i ON s.object = 'index ' || i.indexrelid::regclass
              JOIN pg_constraint k ON (k.conrelid, k.conname) = (i.indrelid, 'id_gen_convert_like_' || i.indexrelid),
                   regexp_matches(k.conbin::text, ':(funcid|opno) (\d+)', 'g') AS matched
             WHERE s.job = job_id AND s.phase = 'trial' AND matched[2]::oid >= 16384),
        called AS (
            SELECT u.index, 'operator ' || u.oid::regoperator AS name, oprnamespace AS schema, oprowner AS owner, false AS is_flexible, ARRAY[oprleft, oprright] AS types
              FROM used u JOIN pg_operator o ON u.is_operator AND o.oid = u.oid
             UNION ALL
            SELECT u.index, 'function ' || u.oid::regprocedure, pronamespace, proowner, provariadic <> 0 OR pronargdefaults > 0, proargtypes::oid[]
              FROM used u JOIN pg_proc f ON NOT u.is_operator AND f.oid = u.oid)
        SELECT string_agg(DISTINCT format('index %s uses %s, ', c.index, c.name) || coalesce(lost.reason, 'which other roles could overload: ' || revoking.statements), '; ')
          FROM called c JOIN pg_namespace n ON n.oid = c.schema,
               -- Whoever owns the schema can take back a REVOKE.
               LATERAL (
                SELECT (SELECT format('which role %I, the owner of its schema, could overload: DROP INDEX %s', r.rolname, c.index)
                          FROM pg_roles r
                         WHERE r.oid = CASE n.nspowner WHEN 'pg_database_owner'::regrole
                                   THEN (SELECT datdba FROM pg_database WHERE datname = current_database()) ELSE n.nspowner END
                           AND NOT pg_has_role(r.oid, c.owner, 'MEMBER') AND NOT pg_has_role(r.oid, current_user, 'MEMBER'))) AS lost (reason),
               LATERAL (
                WITH granted AS (
                    SELECT x.grantor, x.grantee,
                           coalesce(pg_has_role(r.oid, c.owner, 'MEMBER') OR pg_has_role(r.oid, current_user, 'MEMBER'), false) AS is_trusted
                      FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS x
                      LEFT JOIN pg_roles r ON r.oid = CASE x.grantee WHEN 'pg_database_owner'::regrole
                               THEN (SELECT datdba FROM pg_database WHERE datname = current_database()) ELSE x.grantee END
                     WHERE x.privilege_type = 'CREATE'),
                -- Each role takes back only its own grants, and with these the grants that were made by them.
                unwanted AS (
                    SELECT g.grantor, g.grantee, EXISTS (SELECT FROM granted h WHERE h.grantor = g.grantee AND h.grantor <> n.nspowner) AS has_heirs
                      FROM granted g
                     WHERE NOT g.is_trusted AND (g.grantor = n.nspowner OR g.grantor IN (SELECT grantee FROM granted WHERE is_trusted)))
                SELECT CASE WHEN NOT bool_and(pg_has_role(grantor, 'MEMBER')) THEN 'a superuser can run: ' ELSE '' END
                       || string_agg(CASE grantor WHEN n.nspowner THEN revoke ELSE format('SET ROLE %I; %s; RESET ROLE', pg_get_userbyid(grantor), revoke) END,
                                  '; ' ORDER BY grantor <> n.nspowner, grantor)
                  FROM (SELECT grantor, format('REVOKE CREATE ON SCHEMA %I FROM %s%s', n.nspname,
                                               string_agg(CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END, ', ' ORDER BY grantee),
                                               CASE WHEN bool_or(has_heirs) THEN ' CASCADE' END)
                          FROM unwanted GROUP BY grantor) AS each (grantor, revoke)) AS revoking (statements)
         WHERE coalesce(lost.reason, revoking.statements) IS NOT NULL
           AND (c.is_flexible OR EXISTS (SELECT FROM pg_type WHERE oid = ANY (c.types) AND typtype = 'p'))
    $$;
COMMENT ON FUNCTION id_gen_convert.exposed(integer) IS 'indexes whose functions other roles could overload, and the remedies';

-- Makes all that the switch will make again, over the columns with the new values, and takes it back. Nothing that this
-- defines runs before it means the same as before, and indexes on empty tables, which compute constants, come last.
CREATE FUNCTION id_gen_convert.rehearse(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    before jsonb := id_gen_convert.meanings(j.id);
    obstacles text;
BEGIN
    BEGIN
        PERFORM id_gen_convert.execute_all(j.id, 'trial');
        obstacles := concat_ws('; ', id_gen_convert.other_meanings(j.id, before, id_gen_convert.meanings(j.id)), id_gen_convert.exposed(j.id));
        IF obstacles = '' THEN
            PERFORM id_gen_convert.execute_all(j.id, 'trial_index');
        END IF;
        RAISE SQLSTATE 'IDGEN';
    EXCEPTION WHEN SQLSTATE 'IDGEN' THEN
        NULL;
    END;
    PERFORM id_gen_convert.refuse_losses(j, nullif(obstacles, ''));
END $$;
COMMENT ON FUNCTION id_gen_convert.rehearse(id_gen_convert.job) IS 'reject a job whose switch could not make objects again, or not with the same meaning';

-- Evaluates a test in a row of a table, which is given as text, and takes back what functions in it write. An error
-- that other sessions cause says nothing about the row. As a job writes it, a row is computed with the settings of the session.
CREATE FUNCTION id_gen_convert.try_row(
        test text, example text, eras integer[], ids bigint[], others bigint[], is_written boolean,
        OUT fits boolean, OUT failure text, OUT is_unresolved boolean)
    LANGUAGE plpgsql @settings@
    AS $$
BEGIN
    IF is_written THEN
        PERFORM id_gen_convert.use_settings_of_session();
    END IF;
    EXECUTE test INTO fits USING eras, ids, others, example;
    RAISE SQLSTATE 'IDGEN';
EXCEPTION WHEN SQLSTATE 'IDGEN' THEN
    NULL;
WHEN lock_not_available OR transaction_rollback OR operator_intervention OR insufficient_resources THEN
    RAISE;
WHEN OTHERS OR assert_failure THEN
    failure := SQLERRM;
    is_unresolved := SQLSTATE IN ('42883', '42P01', '42704');
END $$;
COMMENT ON FUNCTION id_gen_convert.try_row(text, text, integer[], bigint[], bigint[], boolean) IS 'evaluate a check or an index in one row with other IDs';

-- The condition of a trigger, if whoever evaluates it runs nothing of the role that wrote it, which needs only the privilege TRIGGER:
-- of simple nodes, with immutable functions of PostgreSQL's own, since others run queries that are given as text. NULL otherwise, and
-- if names or arguments look like the ends of the condition.
CREATE FUNCTION id_gen_convert.harmless_condition(t pg_trigger) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT split_part(split_part(definition, start, 2), stop, 1)
          FROM pg_get_triggerdef(t.oid) AS definition, (VALUES (' FOR EACH ROW WHEN (', ') EXECUTE FUNCTION ')) AS around (start, stop)
         WHERE split_part(definition, start, 3) = '' AND split_part(definition, stop, 3) = ''
           AND t.tgqual::text !~ '\{(?!(VAR|CONST|OPEXPR|DISTINCTEXPR|NULLIFEXPR|SCALARARRAYOPEXPR|FUNCEXPR|BOOLEXPR|NULLTEST|BOOLEANTEST|RELABELTYPE|COERCEVIAIO|ARRAY|ARRAYEXPR|CASE|CASEEXPR|WHEN|CASEWHEN|CASETESTEXPR|COALESCE|COALESCEEXPR|MINMAX|MINMAXEXPR)\M)'
           AND NOT EXISTS (SELECT FROM regexp_matches(t.tgqual::text, ':(funcid|opfuncid) (\d+)', 'g') AS called JOIN pg_proc f ON f.oid = called[2]::oid
                            WHERE f.provolatile <> 'i')
           -- Those of PostgreSQL itself are not recorded.
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE (d.classid, d.objid) = ('pg_trigger'::regclass, t.oid) AND d.refobjid <> t.tgfoid
                              AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass, 'pg_collation'::regclass))
    $$;
COMMENT ON FUNCTION id_gen_convert.harmless_condition(pg_trigger) IS 'condition of a trigger, if it runs nothing of the role that wrote it';

-- A function or operator of users that a function written in text may call, and which it would not find without its schema: it would call
-- one of PostgreSQL's own that takes the same arguments by a cast, and no error would tell. NULL if there is none.
CREATE FUNCTION id_gen_convert.hidden_overload(f pg_proc) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        WITH argument (type) AS (SELECT unnest(f.proargtypes::oid[] || f.prorettype)),
        near (type) AS (
            SELECT type FROM argument UNION SELECT unnest(ARRAY[typelem, typbasetype]) FROM argument JOIN pg_type ON pg_type.oid = type),
        callable (kind, name, schema, types, identity) AS NOT MATERIALIZED (
            SELECT 'function', proname, pronamespace, proargtypes::oid[], oid::regprocedure::text FROM pg_proc
             UNION ALL
            SELECT 'operator', oprname, oprnamespace, ARRAY[oprleft, oprright], oid::regoperator::text FROM pg_operator)
        SELECT min(own.kind || ' ' || own.identity)
          FROM callable own JOIN callable builtin USING (kind, name)
         WHERE own.schema NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) AND builtin.schema = 'pg_catalog'::regnamespace
           AND CASE kind WHEN 'operator' THEN strpos(f.prosrc, name) > 0
                         ELSE f.prosrc ~* ('\m' || regexp_replace(name, '(\W)', '\\\1', 'g') || '"?\s*\(') END
           AND own.types <> builtin.types AND cardinality(own.types) = cardinality(builtin.types)
           AND EXISTS (SELECT FROM pg_type t WHERE t.oid = ANY (own.types)
                          AND (t.oid IN (SELECT type FROM near) OR strpos(lower(f.prosrc), lower(t.typname)) > 0))
           AND NOT EXISTS (SELECT FROM unnest(own.types, builtin.types) AS pair (given, taken)
                            WHERE given <> taken AND NOT EXISTS (SELECT FROM pg_type WHERE oid = taken AND typtype = 'p')
                              AND NOT EXISTS (SELECT FROM pg_cast WHERE (castsource, casttarget, castcontext) = (given, taken, 'i')))
    $$;
COMMENT ON FUNCTION id_gen_convert.hidden_overload(pg_proc) IS 'function or operator that another one calls only by the search_path';

-- Functions that find names by the search_path, which a job sets, in what each row that it writes is put into: checks, indexes,
-- generated columns and partition keys. Checks that reject rows which the table has, and generated columns that have another value.
-- Where new rows get larger IDs: checks and policies that no new ID would pass, indexes that could have none or not several, and
-- indexes, triggers and statistics that are for old values only or fail for new ones. NULL if there are none. Each is evaluated in some rows of the
-- table, and in an empty one if it has none, or a single one, which may be a special one, and the empty one would violate no NOT
-- NULL of its columns: with IDs of now and of years ahead, one after the other, so that they have all remainders and last digits.
-- Rows that it refuses with an old value, too, do not count.
CREATE FUNCTION id_gen_convert.unfit(j id_gen_convert.job) RETURNS text
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    has_new_ids boolean := j.target = 'snowflake' AND j.node IS NULL;
    times bigint[];
    eras integer[];
    ids bigint[];
    others bigint[];
    next_ids bigint[];
    each record;
    test text;
    examples text[];
    example text;
    tried record;
    fits_old boolean;
    fits_new boolean;
    failure text;
    obstacles text[] := '{}';
BEGIN
    IF has_new_ids THEN
        SELECT ARRAY[@extschema@.snowflake_min(now()), @extschema@.snowflake_min(greatest(now(), least(now() + interval '10 years', l.exhausted_at - l.tick)))]
          INTO times FROM @extschema@.snowflake_layouts() l WHERE l.in_use;
        -- Without and with another column that refers to the key.
        SELECT array_agg(era), array_agg(times[era] + place), array_agg(CASE WHEN has_other THEN times[era] + 16 - place END)
          INTO eras, ids, others
          FROM generate_series(1, 2) AS era, generate_series(0, 15) AS place, unnest(ARRAY[false, true]) AS has_other;
        EXECUTE format('SELECT array_agg(top + place) FROM (SELECT coalesce(max(id), 0)::bigint FROM (SELECT t.%I FROM %s t LIMIT 1000) AS first (id)) AS last (top),'
                       ' generate_series(1, 16) AS place', j.column_name, j.relation) INTO next_ids;
    END IF;
    FOR each IN
        WITH place AS (
            SELECT a.attrelid AS relation, m.column_name, a.attnum AS number
              FROM id_gen_convert.member m JOIN pg_attribute a ON a.attname = m.column_name
               AND (a.attrelid = m.relation OR a.attrelid IN (SELECT id_gen_convert.parts(m.relation)))
             WHERE m.job = j.id),
        index AS (
            SELECT p.*, i.*, coalesce(pg_get_expr(i.indpred, i.indrelid), 'true') AS condition,
                   (SELECT string_agg(pg_get_indexdef(i.indexrelid, key::integer, false), ', ')
                      FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS part (column_number, key) WHERE column_number = 0) AS expressions
              FROM place p JOIN pg_index i ON i.indrelid = p.relation
             WHERE (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
               -- That of a partitioned table is evaluated for all partitions.
               AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = i.indexrelid)
               AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                              AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relation AND d.refobjsubid = p.number)),
        -- A value in each row, what is true if they fit, and which old values are tried: that of the row, or others. The table may have
        -- columns of the names used here.
        condition (relation, column_name, classid, objid, value, fits, old_ids, reason, is_for_ids) AS (
            -- Those of other columns, too.
            SELECT DISTINCT ON (o.classid, o.objid) p.relation, p.column_name, o.classid, o.objid, o.value, 'bool_or(result.value)', ARRAY[NULL]::bigint[], NULL, false
              FROM place p,
                   LATERAL (
                    SELECT 'pg_constraint'::regclass, k.oid, format('(%s) IS NOT FALSE', pg_get_expr(k.conbin, k.conrelid))
                      FROM pg_constraint k WHERE k.contype = 'c' AND k.conrelid = p.relation AND k.coninhcount = 0 AND k.convalidated
                     UNION ALL
                    SELECT 'pg_class'::regclass, i.indexrelid,
                           format('CASE WHEN %s THEN %s END', coalesce(pg_get_expr(i.indpred, i.indrelid), 'true'), coalesce(
                               (SELECT 'num_nulls(' || string_agg(pg_get_indexdef(i.indexrelid, key::integer, false), ', ') || ') >= 0'
                                  FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS part (column_number, key) WHERE column_number = 0), 'true'))
                      FROM pg_index i WHERE i.indrelid = p.relation AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
                     UNION ALL
                    SELECT 'pg_attrdef'::regclass, e.oid, format('(%s)::text IS NOT DISTINCT FROM %I::text', pg_get_expr(e.adbin, e.adrelid), a.attname)
                      FROM pg_attrdef e JOIN pg_attribute a ON (a.attrelid, a.attnum) = (e.adrelid, e.adnum)
                     WHERE e.adrelid = p.relation AND a.attgenerated <> ''
                     UNION ALL
                    SELECT 'pg_class'::regclass, t.partrelid, format('num_nulls(%s) >= 0', pg_get_expr(t.partexprs, t.partrelid))
                      FROM pg_partitioned_table t WHERE t.partrelid = p.relation AND t.partexprs IS NOT NULL) AS o (classid, objid, value)
             UNION ALL
            SELECT p.relation, p.column_name, 'pg_constraint'::regclass, k.oid, format('(%s) IS NOT FALSE', pg_get_expr(k.conbin, k.conrelid)),
                   'bool_or(result.value)', ARRAY[NULL]::bigint[], 'rejects new IDs, which are larger', true
              FROM place p JOIN pg_constraint k ON k.contype = 'c' AND k.coninhcount = 0 AND k.conrelid = p.relation AND p.number = ANY (k.conkey)
             UNION ALL
            SELECT i.relation, i.column_name, 'pg_class'::regclass, i.indexrelid,
                   format('CASE WHEN %s THEN %s END', i.condition, coalesce('num_nulls(' || i.expressions || ') >= 0', 'true')),
                   'bool_or(result.value)', ARRAY[NULL]::bigint[], 'has a condition that new IDs do not fulfill, as they are larger', true
              FROM index i
             UNION ALL
            -- An index of no other column.
            SELECT i.relation, i.column_name, 'pg_class'::regclass, i.indexrelid,
                   format('CASE WHEN %s THEN CASE num_nulls(%s) WHEN 0 THEN ROW(%2$s)::text END END', i.condition, i.expressions),
                   'count(DISTINCT result.value) = count(DISTINCT given.id) FILTER (WHERE result.value IS NOT NULL)', ARRAY(SELECT generate_series(1, 16)::bigint),
                   'has the same value for several new IDs', true
              FROM index i
             WHERE i.indisunique AND 0 = ALL (i.indkey[0:i.indnkeyatts - 1]) AND i.indexprs::text !~ format(':varattno (?!%s\M)', i.number)
             UNION ALL
            -- One for a few old rows has nothing to do with new ones. The owner of the table calls no function of a policy.
            SELECT p.relation, p.column_name, 'pg_policy'::regclass, o.oid, format('(%s) IS TRUE', pg_get_expr(part.tree, o.polrelid)),
                   'bool_or(result.value)', next_ids, 'hides or rejects new IDs, which are larger', true
              FROM place p JOIN pg_policy o ON o.polrelid = p.relation, LATERAL (VALUES (o.polqual), (o.polwithcheck)) AS part (tree)
             WHERE part.tree::text ~ format(':varattno %s\M', p.number) AND part.tree::text !~ 'SUBLINK' AND id_gen_convert.used(part.tree::text) = '{}'
             UNION ALL
            SELECT p.relation, p.column_name, 'pg_trigger'::regclass, t.oid, format('(%s) IS TRUE', id_gen_convert.harmless_condition(t)),
                   'bool_or(result.value)', next_ids, 'has a condition that new IDs do not fulfill, as they are larger', true
              FROM place p JOIN pg_trigger t ON t.tgrelid = p.relation AND t.tgparentid = 0 AND t.tgqual::text ~ format(':varattno %s\M', p.number)
              JOIN pg_proc f ON f.oid = t.tgfoid AND f.pronamespace <> 'id_gen_convert'::regnamespace
             WHERE id_gen_convert.harmless_condition(t) IS NOT NULL
             UNION ALL
            SELECT p.relation, p.column_name, 'pg_statistic_ext'::regclass, s.oid,
                   format('num_nulls(%s) >= 0', array_to_string(pg_get_statisticsobjdef_expressions(s.oid), ', ')), 'bool_or(result.value)', ARRAY[NULL]::bigint[], NULL, true
              FROM place p JOIN pg_statistic_ext s ON s.stxrelid = p.relation AND s.stxexprs::text ~ format(':varattno %s\M', p.number))
        SELECT c.relation::regclass, c.column_name, c.value, c.fits, c.old_ids, c.reason, c.is_for_ids, named.type || ' ' || named.identity AS name,
               coalesce(s.remedy, (SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::regclass, k.conname) FROM pg_constraint k
                                    WHERE c.classid = 'pg_constraint'::regclass AND k.oid = c.objid)) AS remedy,
               resolving, hidden, c.classid,
               (SELECT string_agg(CASE WHEN NOT c.is_for_ids THEN format('r.%I', a.attname)
                                       WHEN a.attname = c.column_name THEN format('coalesce(given.id, r.%1$I, 1) AS %1$I', a.attname)
                                       WHEN EXISTS (SELECT FROM place q WHERE (q.relation, q.number) = (a.attrelid, a.attnum))
                                            THEN format('coalesce(given.other_id, r.%1$I) AS %1$I', a.attname)
                                       ELSE format('r.%1$I', a.attname) END, ', ')
                  FROM pg_attribute a WHERE a.attrelid = c.relation AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
               CASE WHEN EXISTS (SELECT FROM pg_depend d JOIN pg_attribute a ON (a.attrelid, a.attnum) = (d.refobjid, d.refobjsubid) AND a.attnotnull
                                  WHERE (d.classid, d.objid, d.refclassid, d.refobjid) = (c.classid, c.objid, 'pg_class'::regclass, c.relation)
                                    AND (a.attrelid, a.attnum) NOT IN (SELECT relation, number FROM place)) THEN 1 ELSE 2 END AS enough,
               CASE c.classid WHEN 'pg_trigger'::regclass THEN 'new, LATERAL (SELECT new.*) AS old' ELSE 'new_row' END AS alias
          FROM condition c, pg_identify_object(c.classid, c.objid, 0) AS named
          LEFT JOIN LATERAL (SELECT remedy FROM id_gen_convert.statement s
                              WHERE s.job = j.id AND s.object = named.type || ' ' || named.identity LIMIT 1) AS s ON true,
               LATERAL (
                -- Also functions of operators and of checks of domains.
                WITH RECURSIVE called (classid, objid) AS (
                    SELECT c.classid, c.objid WHERE NOT c.is_for_ids
                     UNION
                    SELECT named.classid, named.objid
                      FROM called,
                           LATERAL (
                            SELECT d.refclassid, d.refobjid FROM pg_depend d
                             WHERE (d.classid, d.objid, d.objsubid) = (called.classid, called.objid, 0)
                               AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)
                             UNION ALL
                            SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k
                             WHERE called.classid = 'pg_type'::regclass AND k.contypid = called.objid) AS named (classid, objid))
                SELECT string_agg(format('ALTER FUNCTION %s SET search_path FROM CURRENT', f.oid::regprocedure), '; ' ORDER BY f.oid::regprocedure::text),
                       min(id_gen_convert.hidden_overload(f))
                  FROM called JOIN pg_proc f ON called.classid = 'pg_proc'::regclass AND f.oid = called.objid
                  JOIN pg_language l ON l.oid = f.prolang AND l.lanname NOT IN ('c', 'internal')
                 WHERE array_to_string(f.proconfig, ' ') !~ '\msearch_path=' IS NOT FALSE) AS pinning (resolving, hidden)
         WHERE CASE WHEN c.is_for_ids THEN has_new_ids ELSE resolving IS NOT NULL OR c.classid = 'pg_constraint'::regclass END
         ORDER BY c.is_for_ids
    LOOP
        IF each.hidden IS NOT NULL THEN
            obstacles := obstacles || format('%s uses names without a schema, for which there is %s: %s', each.name, each.hidden, each.resolving);
            CONTINUE;
        END IF;
        -- Rows without a value stand for others only if there are no others.
        EXECUTE format($examples$
            WITH first AS (SELECT *, concat(tableoid, ' ', ctid) AS "id_gen example" FROM %1$s LIMIT 1000),
                 chosen AS (
                SELECT "id_gen example" AS example FROM first
                 WHERE (first.%2$I IS NULL) = (SELECT bool_and(other.%2$I IS NULL) FROM first AS other) LIMIT 20)
            SELECT ARRAY(SELECT example FROM chosen UNION ALL SELECT NULL WHERE (SELECT count(*) FROM chosen) < %3$s)$examples$,
            each.relation, each.column_name, each.enough) INTO examples;
        test := format($test$
            SELECT bool_and(fits IS TRUE) FROM (
                SELECT %s
                  FROM (SELECT * FROM %s AS r WHERE (tableoid, ctid) = (split_part($4, ' ', 1)::oid, split_part($4, ' ', 2)::tid)
                         UNION ALL
                        SELECT (NULL::%2$s).* WHERE $4 IS NULL OFFSET 0) AS r, unnest($1, $2, $3) AS given (era, id, other_id),
                       LATERAL (SELECT %s FROM (SELECT %s) AS %s) AS result (value)
                 GROUP BY given.era) AS each_era (fits)$test$,
            each.fits, each.relation, each.value, each.columns, each.alias);
        fits_old := false;
        fits_new := false;
        failure := NULL;
        FOREACH example IN ARRAY examples LOOP
            tried := id_gen_convert.try_row(test, example, '{}', each.old_ids, '{}', NOT each.is_for_ids);
            IF NOT each.is_for_ids THEN
                failure := CASE WHEN tried.is_unresolved THEN format('uses names without a schema (%s)', tried.failure)
                                WHEN tried.fits OR tried.failure IS NOT NULL OR example IS NULL THEN NULL
                                WHEN each.classid = 'pg_constraint'::regclass THEN 'rejects rows that the table has'
                                WHEN each.classid = 'pg_attrdef'::regclass THEN 'has another value in rows that the table has' END;
                EXIT WHEN failure IS NOT NULL;
                CONTINUE;
            END IF;
            IF tried.fits THEN
                fits_old := true;
                tried := id_gen_convert.try_row(test, example, eras, ids, others, false);
                fits_new := fits_new OR tried.failure IS NULL AND tried.fits;
                failure := coalesce(failure, 'fails for new IDs (' || tried.failure || ')');
            END IF;
        END LOOP;
        IF failure IS NOT NULL OR fits_old AND NOT fits_new THEN
            obstacles := obstacles || concat(each.name, ' ', coalesce(failure, each.reason), ': ' || CASE WHEN each.is_for_ids THEN each.remedy ELSE coalesce(each.resolving, each.remedy) END);
        END IF;
    END LOOP;
    RETURN (SELECT string_agg(DISTINCT obstacle, '; ') FROM unnest(obstacles) AS obstacle);
END $$;
COMMENT ON FUNCTION id_gen_convert.unfit(id_gen_convert.job) IS 'checks and indexes that do not fit new IDs';

-- Runs what comes first in a job that has just been written down.
CREATE FUNCTION id_gen_convert.start_job(job_id integer, tries integer) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job;
    other id_gen_convert.job;
BEGIN
    SELECT * INTO j FROM id_gen_convert.job WHERE id = job_id;
    SELECT k.* INTO other FROM id_gen_convert.job k
     WHERE k.id <> job_id AND k.phase <> 'switched' AND EXISTS (
         SELECT FROM id_gen_convert.member a JOIN id_gen_convert.member b USING (relation) WHERE a.job = job_id AND b.job = k.id)
     LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('another job is converting tables of %s', j.relation),
            DETAIL = format('It converts column %I of relation %s and is in phase %s.', other.column_name, other.relation, other.phase),
            HINT = format('Continue that job to its switch: SELECT statement FROM id_gen_convert.todo(%s);', id_gen_convert.arguments(other.relation, other.column_name));
    END IF;
    SELECT k.* INTO other FROM id_gen_convert.job k WHERE k.id <> job_id AND k.node = j.node LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'another job generates IDs with the same worker ID',
            DETAIL = format('It converts column %I of relation %s.', other.column_name, other.relation),
            HINT = 'Pass another worker_id or datacenter_id.';
    END IF;
    PERFORM id_gen_convert.lock_tables(j.tables, 'ACCESS EXCLUSIVE', j.others, tries);
    PERFORM id_gen_convert.execute_all(job_id, 'prepare');
    UPDATE id_gen_convert.member m
       SET new_column = format('%s %s', a.attrelid, a.attnum), old_column = format('%s %s', b.attrelid, b.attnum)
      FROM pg_attribute a, pg_attribute b
     WHERE m.job = job_id AND (a.attrelid, a.attname) = (m.relation, m.new_name) AND (b.attrelid, b.attname) = (m.relation, m.column_name);
    PERFORM id_gen_convert.rehearse(j);
    PERFORM id_gen_convert.refuse_losses(j, id_gen_convert.unfit(j));
    PERFORM id_gen_convert.record_partitions(job_id);
    UPDATE id_gen_convert.job SET dependents = id_gen_convert.dependents(job_id) WHERE id = job_id;
END $$;
COMMENT ON FUNCTION id_gen_convert.start_job(integer, integer) IS 'run the first statements of a job';

-- The definition of an index, as far as it is the same in the statement that makes the index and in the catalogs, where
-- casts come and go with the type of a column.
CREATE FUNCTION id_gen_convert.essence(definition text) RETURNS text
    LANGUAGE sql IMMUTABLE @settings@
    AS $$
        SELECT regexp_replace(
            regexp_replace(definition, ' CONCURRENTLY| TABLESPACE ("([^"]|"")*"|[^ ]+)', '', 'g'),
            '::("[^"]*"|[a-z0-9_. ])+|[()''\s]', '', 'g')
    $$;
COMMENT ON FUNCTION id_gen_convert.essence(text) IS 'the definition of an index without its tablespace and without casts';

-- Indexes of a phase that are not there, not whole, or others of the same name; and what makes them.
CREATE FUNCTION id_gen_convert.missing_indexes(job_id integer, of_phase text)
    RETURNS TABLE (place integer, broken text, statement text)
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT s.place, CASE WHEN i.indexrelid IS NOT NULL THEN i.indexrelid::regclass::text END, s.statement
          FROM id_gen_convert.statement s
          LEFT JOIN pg_index i ON i.indrelid = s.made_on
               AND (SELECT relname FROM pg_class WHERE oid = i.indexrelid) = s.made
         WHERE s.job = job_id AND s.phase = of_phase AND s.made_on IN (SELECT oid FROM pg_class)
           AND NOT coalesce(i.indisvalid AND i.indisready
                            AND id_gen_convert.essence(pg_get_indexdef(i.indexrelid)) = id_gen_convert.essence(s.statement), false)
         ORDER BY s.place
    $$;
COMMENT ON FUNCTION id_gen_convert.missing_indexes(integer, text) IS 'indexes that the client has to create, and broken ones of the same name';

CREATE FUNCTION id_gen_convert.todo(relation regclass, column_name text) RETURNS TABLE (statement text)
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job := id_gen_convert.locked_job(relation, column_name, is_reading => true);
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
    each record;
BEGIN
    IF j.phase IN ('switched', 'returned') THEN
        RETURN;
    END IF;
    -- That of this function.
    RETURN QUERY SELECT 'SET search_path = ' || current_setting('search_path');
    FOR each IN
        SELECT * FROM id_gen_convert.missing_indexes(j.id, 'first_index') m WHERE j.phase = 'fill'
    LOOP
        IF each.broken IS NOT NULL THEN
            RETURN QUERY SELECT format('DROP INDEX CONCURRENTLY %s', each.broken);
        END IF;
        RETURN QUERY SELECT each.statement;
    END LOOP;
    IF j.phase IN ('fill', 'check') THEN
        RETURN QUERY SELECT format('CALL id_gen_convert.run(%s)', arguments);
    END IF;
    FOR each IN SELECT * FROM id_gen_convert.missing_indexes(j.id, 'index') LOOP
        IF each.broken IS NOT NULL THEN
            RETURN QUERY SELECT format('DROP INDEX CONCURRENTLY %s', each.broken);
        END IF;
        RETURN QUERY SELECT each.statement;
    END LOOP;
    IF j.phase <> 'ready' THEN
        RETURN QUERY SELECT format('CALL id_gen_convert.run(%s)', arguments);
    END IF;
    RETURN QUERY VALUES (format('SELECT * FROM id_gen_convert.verify(%s)', arguments)),
                        (format('SELECT id_gen_convert.switch(%s)', arguments)),
                        ('RESET search_path');
END $$;
COMMENT ON FUNCTION id_gen_convert.todo(regclass, text) IS 'remaining statements up to the switch, for \gexec of psql; also after a crash';

-- The reason for a job to wait; NULL if there is none.
CREATE FUNCTION id_gen_convert.throttle(max_lag interval, max_archive integer) RETURNS text
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    lag interval;
    archived text;
    failed text;
    segments numeric;
BEGIN
    SELECT max(replay_lag) INTO lag FROM pg_stat_replication;
    IF lag > max_lag THEN
        RETURN format('replication: lag %s, allowed %s', lag, max_lag);
    END IF;
    IF current_setting('archive_mode') <> 'off' AND NOT pg_is_in_recovery() THEN
        SELECT last_archived_wal, last_failed_wal INTO archived, failed FROM pg_stat_archiver;
        IF archived ~ '^[0-9A-F]{24}' THEN
            segments := (pg_current_wal_lsn() - '0/0'::pg_lsn) / pg_size_bytes(current_setting('wal_segment_size'))
                - ('x' || substr(archived, 9, 8))::bit(32)::bigint * (4294967296 / pg_size_bytes(current_setting('wal_segment_size')))
                - ('x' || substr(archived, 17, 8))::bit(32)::bigint;
            IF segments > max_archive THEN
                RETURN format('archiving: %s WAL segments are not archived yet, allowed %s', trunc(segments), max_archive);
            END IF;
        ELSIF archived IS NULL AND failed IS NOT NULL THEN
            RETURN format('archiving: %s could not be archived', failed);
        END IF;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION id_gen_convert.throttle(interval, integer) IS 'reason for a job to wait: replication lag or unarchived WAL; NULL if none';

-- Gives rows of one table their snowflakes, with the time of each row and a number that no server generates with. Rows whose
-- tick is full get the next tick that has room. Which IDs are taken shows in the index of the column; a job is carried on by
-- one session at a time, so nobody else takes some meanwhile, and above the highest none is taken. All names of columns are
-- qualified, as the table may have columns of the same names.
CREATE FUNCTION id_gen_convert.allot(j id_gen_convert.job, f id_gen_convert.fill, part regclass, which text, locking text)
    RETURNS bigint
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    written bigint;
    total bigint;
    crowded bigint;
    top bigint := (SELECT highest FROM id_gen_convert.fill WHERE job = j.id AND place = f.place);
    new_top bigint;
    is_left boolean;
    in_use text := (SELECT l.layout FROM @extschema@.snowflake_layouts() l WHERE l.in_use);
BEGIN
    PERFORM id_gen_convert.use_settings_of_session();
    IF in_use IS DISTINCT FROM j.layout THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('id_gen.layout has changed since the job of column %I of relation %s began', j.column_name, j.relation),
            DETAIL = format('The job assigns a worker ID of the layout "%s"; the layout is "%s" now.', j.layout, in_use),
            HINT = format('To undo the job, and then start it again: CALL id_gen_convert.undo(%s);', id_gen_convert.arguments(j.relation, j.column_name));
    END IF;
    -- Where rows lie in the order of their times, that is all of them.
    EXECUTE format($statement$
        WITH numbered AS MATERIALIZED (
            SELECT batch.place, batch.tick, row_number() OVER (PARTITION BY batch.tick) - 1 AS sequence
              FROM (SELECT t.ctid, %7$s.snowflake_min(greatest(least(coalesce(%3$s, $1), $1), $2))
                      FROM ONLY %1$s t WHERE %2$s AND (%4$s) %6$s) AS batch (place, tick)
             WHERE batch.tick > $6),
        written AS (
            UPDATE ONLY %1$s AS t SET %5$I = numbered.tick + $3 + numbered.sequence * $4 FROM numbered
             WHERE t.ctid = numbered.place AND numbered.sequence < $5 AND (%4$s) RETURNING t.%5$I AS id)
        SELECT count(*), max(written.id) FROM written
        $statement$, part, which, f.allotted_at, f.pending, f.allotted_column, locking, @extschema_text@)
    INTO total, new_top
    USING j.started_at, @extschema@.snowflake_timestamp(0::bigint), j.node, j.sequence_step, j.sequence_size, top;
    top := greatest(top, new_top);
    EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s t WHERE %s AND (%s))', part, which, f.pending) INTO is_left;
    WHILE is_left LOOP
        EXECUTE format($statement$
            WITH batch AS MATERIALIZED (
                SELECT t.ctid AS place, %8$s.snowflake_min(greatest(least(coalesce(%3$s, $2), $2), $3)) AS own_tick
                  FROM ONLY %1$s t WHERE %2$s AND (%4$s) %7$s),
            timed AS MATERIALIZED (
                SELECT batch.place, batch.own_tick, coalesce(known.free_tick, batch.own_tick) AS tick
                  FROM batch LEFT JOIN id_gen_convert.full_tick AS known ON known.job = $1 AND known.tick = batch.own_tick),
            used AS MATERIALIZED (
                SELECT ticks.tick, coalesce((SELECT (max(t.%5$I) - ticks.tick - $4) / $5 + 1 FROM %6$s t
                                              WHERE t.%5$I BETWEEN ticks.tick + $4 AND ticks.tick + $4 + ($6 - 1) * $5
                                                AND (t.%5$I - ticks.tick - $4) %% $5 = 0), 0) AS number
                  FROM (SELECT DISTINCT timed.tick FROM timed) AS ticks),
            numbered AS MATERIALIZED (
                SELECT timed.place, timed.own_tick, timed.tick,
                       used.number + row_number() OVER (PARTITION BY timed.tick ORDER BY timed.place) - 1 AS sequence
                  FROM timed JOIN used ON used.tick = timed.tick),
            written AS (
                UPDATE ONLY %1$s AS t SET %5$I = numbered.tick + $4 + numbered.sequence * $5 FROM numbered
                 WHERE t.ctid = numbered.place AND numbered.sequence < $6 AND (%4$s) RETURNING t.%5$I AS id),
            crowded AS (
                INSERT INTO id_gen_convert.full_tick AS known (job, tick, free_tick)
                SELECT DISTINCT $1, numbered.own_tick, numbered.tick + $7 FROM numbered WHERE numbered.sequence >= $6
                ON CONFLICT (job, tick) DO UPDATE SET free_tick = excluded.free_tick RETURNING 1)
            SELECT count(*), (SELECT count(*) FROM crowded), max(written.id) FROM written
            $statement$, part, which, f.allotted_at, f.pending, f.allotted_column, f.relation, locking, @extschema_text@)
        INTO written, crowded, new_top
        USING j.id, j.started_at, @extschema@.snowflake_timestamp(0::bigint), j.node, j.sequence_step, j.sequence_size, j.tick_step;
        total := total + written;
        top := greatest(top, new_top);
        is_left := crowded > 0;
    END LOOP;
    UPDATE id_gen_convert.fill SET highest = top WHERE job = j.id AND place = f.place;
    RETURN total;
END $$;
COMMENT ON FUNCTION id_gen_convert.allot(id_gen_convert.job, id_gen_convert.fill, regclass, text, text) IS 'assign snowflakes with the time of each row';

-- Whether a table still has the column of the time.
CREATE FUNCTION id_gen_convert.is_time(f id_gen_convert.fill) RETURNS boolean
    LANGUAGE plpgsql @settings@
    AS $$
BEGIN
    EXECUTE format('SELECT coalesce(%s, now()) FROM %s t LIMIT 0', f.allotted_at, f.relation);
    RETURN true;
EXCEPTION WHEN undefined_column OR datatype_mismatch THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION id_gen_convert.is_time(id_gen_convert.fill) IS 'whether a table has the column with the time of its rows';

-- Writes the new values of some rows of a table, and returns how many. What others hold is waited for no longer than a tenth of
-- a second, before PostgreSQL looks for deadlocks, so that none of theirs is ended for one. Then their rows are left out.
CREATE FUNCTION id_gen_convert.write_rows(j id_gen_convert.job, f id_gen_convert.fill, part regclass, which text) RETURNS bigint
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    written bigint;
    fires boolean;
    firing text;
    failure text;
BEGIN
    PERFORM set_config('lock_timeout', '100ms', true);
    PERFORM id_gen_convert.use_settings_of_session();
    -- Prevents changes of triggers.
    EXECUTE format('LOCK TABLE ONLY %s IN ROW EXCLUSIVE MODE', part);
    fires := EXISTS (SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
                      WHERE t.tgrelid = part AND t.tgtype & 16 <> 0 AND t.tgenabled <> 'D' AND NOT t.tgisinternal
                        AND p.pronamespace <> 'id_gen_convert'::regnamespace);
    IF fires THEN
        firing := id_gen_convert.firing(j.id);
        IF firing IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('triggers would fire for each row that the job of column %I of relation %s writes', j.column_name, j.relation),
                DETAIL = format('Obstacles: %s.', firing),
                HINT = format('Remove the obstacles, and then continue the job: CALL id_gen_convert.run(%s);', id_gen_convert.arguments(j.relation, j.column_name));
        END IF;
        -- What others have put on the table is for changes of theirs.
        PERFORM set_config('session_replication_role', 'replica', true);
    END IF;
    BEGIN
        IF f.assignment IS NULL THEN
            written := id_gen_convert.allot(j, f, part, which, '');
        ELSE
            EXECUTE format('UPDATE ONLY %s AS t SET %s WHERE %s AND (%s)', part, f.assignment, which, f.pending);
            GET DIAGNOSTICS written = ROW_COUNT;
        END IF;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        IF f.assignment IS NULL THEN
            written := id_gen_convert.allot(j, f, part, which, 'FOR UPDATE SKIP LOCKED');
        ELSE
            EXECUTE format(
                'WITH batch AS MATERIALIZED (SELECT t.ctid AS place FROM ONLY %1$s t WHERE %2$s AND (%3$s) FOR UPDATE SKIP LOCKED)'
                ' UPDATE ONLY %1$s AS t SET %4$s FROM batch WHERE t.ctid = batch.place',
                part, which, f.pending, f.assignment);
            GET DIAGNOSTICS written = ROW_COUNT;
        END IF;
    WHEN undefined_column OR datatype_mismatch THEN
        failure := SQLERRM;
        -- What rows are computed with may fail likewise.
        IF f.allotted_at IS NULL OR id_gen_convert.is_time(f) THEN
            RAISE;
        END IF;
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the column with the time of rows of %s has been renamed, dropped or changed since the job began', f.relation),
            DETAIL = failure || '.',
            HINT = format('Give it its name and type back with ALTER TABLE, and run the command again; or undo the job: CALL id_gen_convert.undo(%s);', id_gen_convert.arguments(j.relation, j.column_name));
    END;
    IF fires THEN
        PERFORM set_config('session_replication_role', 'origin', true);
    END IF;
    RETURN written;
END $$;
COMMENT ON FUNCTION id_gen_convert.write_rows(id_gen_convert.job, id_gen_convert.fill, regclass, text) IS 'write the new values of some rows';

-- The next batch of a table. Blocks are read once, in their order; rows that were locked then, or came to lie in a block that
-- was read already, are found by a search through the table in the end. Returns the seconds to wait, NULL when all is done.
CREATE FUNCTION id_gen_convert.fill_some(j id_gen_convert.job, f id_gen_convert.fill, max_rows integer) RETURNS double precision
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    p id_gen_convert.part;
    each regclass;
    written bigint := 0;
    is_pending boolean := false;
    began timestamptz := clock_timestamp();
    took interval;
BEGIN
    SELECT * INTO p FROM id_gen_convert.part
     WHERE job = j.id AND place = f.place AND next_block < blocks ORDER BY relation LIMIT 1;
    IF FOUND THEN
        IF to_regclass(p.relation::text) IS NOT NULL THEN
            written := id_gen_convert.write_rows(j, f, p.relation,
                format('t.ctid >= ''(%s,0)'' AND t.ctid < ''(%s,0)''', p.next_block, p.next_block + f.width));
        END IF;
        took := clock_timestamp() - began;
        UPDATE id_gen_convert.part SET next_block = least(p.next_block + f.width, blocks)
         WHERE job = j.id AND place = f.place AND relation = p.relation;
        UPDATE id_gen_convert.fill
           SET rows_done = rows_done + written,
               -- As many blocks as take a tenth of a second: who wants one of their rows waits no longer.
               -- Behind empty blocks there may be full ones, which have about a hundred rows.
               width = CASE WHEN took > '150 ms' OR written > max_rows THEN greatest(width / 2, 1)
                            WHEN took < '60 ms' THEN least(width * 2, greatest(max_rows / 100, 1))
                            ELSE least(width, greatest(max_rows / 100, 1)) END
         WHERE job = j.id AND place = f.place;
        RETURN 0;
    END IF;
    FOR each IN SELECT id_gen_convert.parts(f.relation) LOOP
        written := written + id_gen_convert.write_rows(j, f, each, format(
            't.ctid = ANY (ARRAY(SELECT t.ctid FROM ONLY %s t WHERE %s LIMIT %s FOR UPDATE SKIP LOCKED))', each, f.pending, max_rows));
        EXIT WHEN written >= max_rows;
    END LOOP;
    UPDATE id_gen_convert.fill SET rows_done = rows_done + written WHERE job = j.id AND place = f.place;
    IF written > 0 THEN
        RETURN 0;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE %s)', f.relation, f.pending) INTO is_pending;
    RETURN CASE WHEN is_pending THEN 0.2 END;
END $$;
COMMENT ON FUNCTION id_gen_convert.fill_some(id_gen_convert.job, id_gen_convert.fill, integer) IS 'write the new values of a batch of rows';

-- Writes down, and says once, what a job waits for; NULL if nothing.
CREATE FUNCTION id_gen_convert.wait_for(j id_gen_convert.job, reason text) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
BEGIN
    IF reason IS DISTINCT FROM j.waiting_for THEN
        UPDATE id_gen_convert.job SET waiting_for = reason WHERE id = j.id;
        RAISE NOTICE '%: %', j.relation,
            CASE reason WHEN 'paused' THEN format('paused; to resume: SELECT id_gen_convert.resume(%s);', id_gen_convert.arguments(j.relation, j.column_name))
                 ELSE coalesce('waiting for ' || reason, 'resumed') END;
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.wait_for(id_gen_convert.job, text) IS 'record what a job waits for';

-- Which transactions hold the last rows of a table that lack a value.
CREATE FUNCTION id_gen_convert.row_holders(f id_gen_convert.fill) RETURNS text
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    holders text;
BEGIN
    EXECUTE format($statement$
        SELECT string_agg(DISTINCT coalesce('process ' || l.pid, format('prepared transaction %%L', p.gid)), ', ')
          FROM (SELECT t.xmax FROM %1$s t WHERE %2$s LIMIT 100) AS locked (id)
          JOIN pg_locks l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = locked.id
          LEFT JOIN pg_prepared_xacts p ON p.transaction = locked.id
        $statement$, f.relation, f.pending) INTO holders;
    RETURN format('rows of %s, locked by %s', f.relation, coalesce(holders, 'other transactions'));
END $$;
COMMENT ON FUNCTION id_gen_convert.row_holders(id_gen_convert.fill) IS 'transactions that lock the last rows without a new value';

-- One step of a job: a batch of rows, or one statement. Returns the seconds to wait before the next, NULL if there is none.
CREATE FUNCTION id_gen_convert.step(
        relation regclass, column_name text, max_rows integer DEFAULT 20000,
        max_lag interval DEFAULT '10 s', max_archive integer DEFAULT 64)
    RETURNS double precision
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job := id_gen_convert.locked_job(relation, column_name, is_reading => true);
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
    f id_gen_convert.fill;
    s id_gen_convert.statement;
    reason text := CASE WHEN j.paused THEN 'paused' ELSE id_gen_convert.throttle(max_lag, max_archive) END;
    wait double precision;
    each text;
    missing integer;
BEGIN
    IF j.phase IN ('switched', 'returned') THEN
        PERFORM id_gen_convert.wrong_phase(j, 'fill, check, index, attach, reference or ready');
    END IF;
    IF reason IS NOT NULL THEN
        PERFORM id_gen_convert.wait_for(j, reason);
        RETURN 1;
    END IF;
    SELECT * INTO f FROM id_gen_convert.fill WHERE job = j.id AND ended_at IS NULL AND j.phase = 'fill' ORDER BY place LIMIT 1;
    IF f.begun_at IS NULL THEN
        PERFORM id_gen_convert.wait_for(j, NULL);
    END IF;
    IF j.phase = 'ready' THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO missing FROM id_gen_convert.missing_indexes(j.id, CASE j.phase WHEN 'index' THEN 'index' ELSE 'first_index' END)
     WHERE j.phase IN ('fill', 'index');
    IF missing > 0 THEN
        RAISE NOTICE '%: indexes to create: %; run: SELECT statement FROM id_gen_convert.todo(%) \gexec', j.relation, missing, arguments;
        RETURN NULL;
    END IF;
    IF j.phase = 'fill' THEN
        IF f.begun_at IS NOT NULL THEN
            BEGIN
                wait := id_gen_convert.fill_some(j, f, max_rows);
                reason := CASE WHEN wait > 0 THEN id_gen_convert.row_holders(f) END;
            EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
                wait := 0.2;
                reason := format('a lock on %s', f.relation);
            END;
            PERFORM id_gen_convert.wait_for(j, reason);
            IF wait IS NOT NULL THEN
                PERFORM id_gen_convert.tell(j.id, f.place);
                RETURN wait;
            END IF;
            UPDATE id_gen_convert.fill SET ended_at = clock_timestamp() WHERE job = j.id AND place = f.place;
            PERFORM id_gen_convert.tell(j.id, f.place);
            RETURN 0;
        ELSIF f.job IS NOT NULL THEN
            IF f.synchronize <> '{}' THEN
                PERFORM id_gen_convert.lock_tables(ARRAY[f.relation::text], 'SHARE ROW EXCLUSIVE');
                FOREACH each IN ARRAY f.synchronize LOOP
                    EXECUTE each;
                END LOOP;
            END IF;
            UPDATE id_gen_convert.fill
               SET begun_at = now(), told_at = now(),
                   rows_total = (SELECT coalesce(sum(greatest(reltuples, 0)), 0) FROM pg_class WHERE oid IN (SELECT id_gen_convert.parts(f.relation)))
             WHERE job = j.id AND place = f.place;
            INSERT INTO id_gen_convert.part (job, place, relation, blocks)
            SELECT j.id, f.place, each_part, pg_relation_size(each_part) / current_setting('block_size')::bigint
              FROM id_gen_convert.parts(f.relation) AS each_part;
            RETURN 0;
        END IF;
        UPDATE id_gen_convert.job SET phase = 'check', done = 0 WHERE id = j.id;
        RETURN 0;
    END IF;
    SELECT * INTO s FROM id_gen_convert.statement WHERE job = j.id AND phase = j.phase AND place = j.done + 1 AND j.phase <> 'index';
    IF FOUND THEN
        PERFORM id_gen_convert.execute_one(s);
        UPDATE id_gen_convert.job SET done = done + 1 WHERE id = j.id;
        RETURN 0;
    END IF;
    UPDATE id_gen_convert.job
       SET phase = CASE j.phase WHEN 'check' THEN 'index' WHEN 'index' THEN 'attach' WHEN 'attach' THEN 'reference' ELSE 'ready' END, done = 0
     WHERE id = j.id;
    IF j.phase = 'reference' THEN
        RAISE NOTICE '%: ready; run: SELECT * FROM id_gen_convert.verify(%)', j.relation, arguments;
    END IF;
    RETURN 0;
END $$;
COMMENT ON FUNCTION id_gen_convert.step(regclass, text, integer, interval, integer) IS 'run one step of a job; returns the seconds to wait, or NULL after the last step';

CREATE PROCEDURE id_gen_convert.run(
        relation regclass, column_name text, max_rows integer DEFAULT 20000, pause interval DEFAULT '0',
        max_lag interval DEFAULT '10 s', max_archive integer DEFAULT 64)
    LANGUAGE plpgsql
    AS $$
DECLARE
    -- A procedure that commits has no setting of its own, so all names here have their schema.
    wait double precision;
BEGIN
    LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        wait := id_gen_convert.step(relation, column_name, max_rows, max_lag, max_archive);
        COMMIT;
        EXIT WHEN wait IS NULL;
        PERFORM pg_catalog.pg_sleep(wait), pg_catalog.pg_sleep_for(pause);
    END LOOP;
END $$;
COMMENT ON PROCEDURE id_gen_convert.run(regclass, text, integer, interval, interval, integer) IS 'continue a job until the client has to create indexes, or to the switch; not in a transaction block';

CREATE FUNCTION id_gen_convert.pause(relation regclass, column_name text) RETURNS void
    LANGUAGE sql @settings@
    AS 'UPDATE id_gen_convert.job j SET paused = true WHERE id = (id_gen_convert.locked_job(pause.relation, pause.column_name)).id';
COMMENT ON FUNCTION id_gen_convert.pause(regclass, text) IS 'pause a job, even while it is running';

CREATE FUNCTION id_gen_convert.resume(relation regclass, column_name text) RETURNS void
    LANGUAGE sql @settings@
    AS 'UPDATE id_gen_convert.job j SET paused = false WHERE id = (id_gen_convert.locked_job(resume.relation, resume.column_name)).id';
COMMENT ON FUNCTION id_gen_convert.resume(regclass, text) IS 'resume a paused job';

CREATE VIEW id_gen_convert.progress AS
    WITH figures AS (
        SELECT j.relation, j.column_name, j.phase, j.waiting_for, f.job, f.place, f.relation AS filling, f.rows_done,
               greatest(f.rows_total, f.rows_done) AS rows_total,
               coalesce(f.ended_at, pg_catalog.clock_timestamp()) - f.begun_at AS elapsed,
               CASE WHEN f.ended_at IS NOT NULL THEN 1 ELSE
                   -- Rows that others had locked come after the last block.
                   (SELECT least(pg_catalog.sum(p.next_block)::double precision / nullif(pg_catalog.sum(p.blocks), 0), 0.999)
                      FROM id_gen_convert.part p WHERE p.job = f.job AND p.place = f.place) END AS share
          FROM id_gen_convert.job j LEFT JOIN id_gen_convert.fill f ON f.job = j.id)
    -- Not rounded up: 100 is the end.
    SELECT relation, column_name, phase, filling, rows_done, rows_total, pg_catalog.trunc((share * 100)::numeric, 1) AS percent,
           (rows_done / nullif(pg_catalog.date_part('epoch', elapsed), 0))::bigint AS rows_per_second,
           CASE WHEN share > 0 THEN pg_catalog.date_trunc('second', elapsed / share - elapsed) END AS time_left,
           waiting_for
      FROM figures ORDER BY job, place;
COMMENT ON VIEW id_gen_convert.progress IS 'progress of each table of each job: rows, rate, time left and reason to wait';

-- A line of progress, every five seconds, and after the last row where there was one before.
CREATE FUNCTION id_gen_convert.tell(job_id integer, fill_place integer) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    p id_gen_convert.progress;
BEGIN
    UPDATE id_gen_convert.fill SET told_at = clock_timestamp()
     WHERE job = job_id AND place = fill_place
       AND CASE WHEN ended_at IS NULL THEN told_at < clock_timestamp() - interval '5 s' ELSE told_at > begun_at END;
    IF FOUND THEN
        SELECT progress.* INTO p
          FROM id_gen_convert.fill f JOIN id_gen_convert.job j ON j.id = f.job
          JOIN id_gen_convert.progress ON progress.filling = f.relation AND progress.relation = j.relation AND progress.column_name = j.column_name
         WHERE f.job = job_id AND f.place = fill_place LIMIT 1;
        RAISE NOTICE '%: % rows filled, % %% of the table read, % rows/s, about % left', p.filling, p.rows_done, p.percent, p.rows_per_second, p.time_left;
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.tell(integer, integer) IS 'report the progress';

-- Triggers of a job that should keep rows in step now and do not, on the table or on a partition, and the remedy; both are
-- NULL if there are none. Those of a table that references the key are made when the rows of that table are to be filled.
CREATE FUNCTION id_gen_convert.idle_triggers(j id_gen_convert.job, OUT names text, OUT remedy text)
    LANGUAGE sql STABLE @settings@
    AS $$
        WITH place AS (
            SELECT DISTINCT f.relation, id_gen_convert.parts(f.relation) AS part
              FROM id_gen_convert.fill f WHERE f.job = j.id AND (f.begun_at IS NOT NULL OR f.synchronize = '{}'))
        SELECT string_agg(format('%s on %s', w.trigger_name, p.part), ', '),
               CASE WHEN bool_or(t.oid IS NULL) THEN
                        CASE j.phase WHEN 'switched' THEN format('To keep the new column: SELECT id_gen_convert.finish(%1$s); to undo with the old values as they are: CALL id_gen_convert.undo(%1$s, force => true);', id_gen_convert.arguments(j.relation, j.column_name))
                        ELSE format('CALL id_gen_convert.undo(%s);', id_gen_convert.arguments(j.relation, j.column_name)) END
                    ELSE string_agg(format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I;', p.part, w.trigger_name), ' ') END
          FROM place p
          JOIN id_gen_convert.trigger_of w ON w.job = j.id AND w.relation = p.relation AND w.is_backward = (j.phase IN ('switched', 'returned'))
          LEFT JOIN pg_trigger t ON t.tgrelid = p.part AND t.tgname = w.trigger_name
         WHERE t.tgenabled IS DISTINCT FROM 'A'
    $$;
COMMENT ON FUNCTION id_gen_convert.idle_triggers(id_gen_convert.job) IS 'missing or disabled triggers of a job, and the remedy';

-- The triggers of a job, each with the version of its row in the catalog: one that was switched off and on again has another.
CREATE FUNCTION id_gen_convert.trigger_versions(j id_gen_convert.job) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT string_agg(DISTINCT format('%s %s', t.oid, t.xmin), ', ')
          FROM id_gen_convert.fill f, id_gen_convert.parts(f.relation) AS part, id_gen_convert.trigger_of w, pg_trigger t
         WHERE f.job = j.id AND w.job = j.id AND w.relation = f.relation AND NOT w.is_backward
           AND t.tgrelid = part AND t.tgname = w.trigger_name
    $$;
COMMENT ON FUNCTION id_gen_convert.trigger_versions(id_gen_convert.job) IS 'triggers of a job before the switch, and the versions of their catalog rows';

-- Rows that were written without these triggers may have values that belong to other rows.
CREATE FUNCTION id_gen_convert.check_triggers(j id_gen_convert.job) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    idle record := id_gen_convert.idle_triggers(j);
BEGIN
    IF idle.names IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('triggers of the conversion of %s are missing or disabled', j.relation),
            DETAIL = format('Rows written without them may have wrong values: %s.', idle.names),
            HINT = idle.remedy || CASE WHEN j.phase = 'ready'
                THEN format(' Then verify again: SELECT * FROM id_gen_convert.verify(%s);', id_gen_convert.arguments(j.relation, j.column_name))
                ELSE '' END;
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.check_triggers(id_gen_convert.job) IS 'reject a job while its triggers are missing or disabled';

-- Only people know which values these rows should have.
CREATE FUNCTION id_gen_convert.missing_values(f id_gen_convert.fill) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT format('In these rows, set %s to the values that they are to have after an undo: SELECT * FROM %s t WHERE %s;',
                      (SELECT string_agg(quote_ident(m.old_name), ', ' ORDER BY m.old_name) FROM id_gen_convert.member m WHERE (m.job, m.relation) = (f.job, f.relation)),
                      f.relation, f.unreturned)
    $$;
COMMENT ON FUNCTION id_gen_convert.missing_values(id_gen_convert.fill) IS 'how to give old values to rows that have none';

CREATE FUNCTION id_gen_convert.verify(relation regclass, column_name text)
    RETURNS TABLE (name text, status text, found text, remedy text)
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job := id_gen_convert.locked_job(relation, column_name, is_reading => true);
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
    is_switched boolean := j.phase = 'switched';
    -- Before any row is read: what is changed from here on is found by the switch.
    triggers text := id_gen_convert.trigger_versions(j);
    f id_gen_convert.fill;
    rows bigint;
    pending bigint;
    wrong bigint;
    is_fine boolean := true;
    strangers text;
    idle record;
BEGIN
    IF j.phase = 'returned' THEN
        PERFORM id_gen_convert.wrong_phase(j, 'fill, check, index, attach, reference, ready or switched');
    END IF;
    PERFORM id_gen_convert.check_row_security(j, true);
    FOR f IN SELECT * FROM id_gen_convert.fill AS of_table WHERE job = j.id AND of_table.relation IN (SELECT oid FROM pg_class) ORDER BY place LOOP
        EXECUTE format('SELECT count(*), count(*) FILTER (WHERE %s), count(*) FILTER (WHERE %s) FROM %s t',
                       CASE WHEN is_switched THEN f.unreturned ELSE f.pending END,
                       CASE WHEN is_switched THEN f.diverged ELSE format('(%s) AND NOT (%s)', f.mismatch, f.pending) END, f.relation)
            INTO rows, pending, wrong;
        is_fine := is_fine AND pending = 0 AND wrong = 0;
        RETURN QUERY SELECT format('rows of %s', f.relation), CASE WHEN pending + wrong = 0 THEN 'ok' ELSE 'error' END,
            CASE WHEN pending > 0 AND f.ended_at IS NULL THEN format('not filled yet: %s of %s rows', pending, rows)
                 ELSE format('rows: %s, without a value: %s, with a wrong value: %s', rows, pending, wrong) END,
            CASE WHEN pending > 0 AND f.ended_at IS NULL THEN format('CALL id_gen_convert.run(%s);', arguments)
                       WHEN pending > 0 AND NOT is_switched THEN format('UPDATE id_gen_convert.job SET phase = ''fill'' WHERE id = %1$s; UPDATE id_gen_convert.fill SET ended_at = NULL WHERE job = %1$s; CALL id_gen_convert.run(%2$s);', j.id, arguments)
                       WHEN wrong > 0 AND is_switched THEN format('UPDATE %s t SET %s WHERE %s;', f.relation, f.restoring, f.diverged)
                       WHEN pending > 0 THEN id_gen_convert.missing_values(f)
                       WHEN wrong > 0 THEN format('UPDATE %s t SET %s WHERE %s;', f.relation, f.assignment, f.mismatch) END;
    END LOOP;

    idle := id_gen_convert.idle_triggers(j);
    is_fine := is_fine AND idle.names IS NULL;
    RETURN QUERY SELECT 'writers', CASE WHEN idle.names IS NULL THEN 'ok' ELSE 'error' END,
        coalesce('triggers that are missing or not ENABLE ALWAYS: ' || idle.names,
                 CASE WHEN EXISTS (SELECT FROM id_gen_convert.fill unfilled WHERE unfilled.job = j.id AND unfilled.begun_at IS NULL)
                      THEN 'all triggers that exist so far are enabled' ELSE 'all triggers are enabled' END),
        idle.remedy;

    IF NOT is_switched THEN
        SELECT count(*) INTO pending FROM id_gen_convert.statement s
         WHERE s.job = j.id AND s.phase IN ('first_index', 'index')
           AND EXISTS (SELECT FROM id_gen_convert.missing_indexes(j.id, s.phase) m WHERE m.place = s.place);
        RETURN QUERY SELECT 'indexes', CASE WHEN pending = 0 THEN 'ok' ELSE 'error' END,
            CASE WHEN pending = 0 THEN 'all indexes are valid; no duplicate values' ELSE format('missing, invalid or different indexes: %s', pending) END,
            CASE WHEN pending > 0 THEN format('SELECT statement FROM id_gen_convert.todo(%s) \gexec', arguments) END;
        is_fine := is_fine AND pending = 0;

        SELECT count(*) INTO pending FROM id_gen_convert.statement s
         WHERE s.job = j.id AND s.phase IN ('check', 'reference') AND s.made IS NOT NULL
           AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = s.made_on AND k.conname = s.made AND (k.convalidated OR NOT EXISTS (
               SELECT FROM id_gen_convert.statement v WHERE v.job = s.job AND v.phase = s.phase
                  AND v.statement = format('ALTER TABLE %s VALIDATE CONSTRAINT %I', s.made_on, s.made))));
        RETURN QUERY SELECT 'constraints', CASE WHEN pending = 0 THEN 'ok' ELSE 'error' END,
            CASE WHEN pending = 0 THEN 'all constraints are valid' ELSE format('missing or invalid constraints: %s', pending) END,
            CASE WHEN pending > 0 AND j.phase <> 'ready' THEN format('CALL id_gen_convert.run(%s);', arguments)
                       WHEN pending > 0 THEN format('CALL id_gen_convert.undo(%s);', arguments) END;
        is_fine := is_fine AND pending = 0;

        strangers := (id_gen_convert.changes(j)).changed;
        RETURN QUERY SELECT 'schema', CASE WHEN strangers IS NULL THEN 'ok' ELSE 'error' END,
            coalesce('dependent objects added, changed or dropped since the job began: ' || strangers, 'no dependent object has changed'),
            CASE WHEN strangers IS NOT NULL THEN format('Revert these changes until after the switch, or undo the job and start again: CALL id_gen_convert.undo(%s);', arguments) END;
        is_fine := is_fine AND strangers IS NULL;
    END IF;

    IF j.phase <> 'returned' THEN
        strangers := id_gen_convert.losses(j.id);
        IF NOT is_switched THEN
            strangers := nullif(concat_ws('; ', strangers, id_gen_convert.other_meanings(
                j.id, id_gen_convert.meanings(j.id), id_gen_convert.meanings(j.id, of_twins => true))), '');
        END IF;
        RETURN QUERY SELECT 'losses', CASE WHEN strangers IS NULL THEN 'ok' ELSE 'error' END,
            coalesce('would be lost: ' || strangers, CASE WHEN is_switched THEN 'an undo loses nothing' ELSE 'the switch loses nothing' END),
            CASE WHEN strangers IS NOT NULL THEN 'Remove the obstacles; what is still needed can be recreated after the conversion.'
                || CASE WHEN is_switched THEN '' ELSE format(' To undo the job: CALL id_gen_convert.undo(%s);', arguments) END END;
        is_fine := is_fine AND strangers IS NULL;
    END IF;

    IF NOT is_switched THEN
        is_fine := is_fine AND j.phase = 'ready';
        UPDATE id_gen_convert.job SET verified_at = CASE WHEN is_fine THEN clock_timestamp() END, verified_triggers = triggers
         WHERE id = j.id;
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.verify(regclass, text) IS 'read all rows and check the new values, indexes, constraints and triggers';

CREATE FUNCTION id_gen_convert.switch(relation regclass, column_name text) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job := id_gen_convert.locked_job(relation, column_name, is_reading => true);
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
    changed text;
    meant jsonb;
BEGIN
    IF j.phase <> 'ready' THEN
        PERFORM id_gen_convert.wrong_phase(j, 'ready');
    END IF;
    IF j.verified_at IS NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the new values of column %I of relation %s are not verified', j.column_name, j.relation),
            DETAIL = 'id_gen_convert.verify() has not been run since the job became ready, or it reported an error.',
            HINT = format('Run this, and the remedies that it returns, until it returns no row: SELECT * FROM id_gen_convert.verify(%s) WHERE status <> ''ok'';', arguments);
    END IF;
    PERFORM id_gen_convert.lock_tables(j.tables, 'ACCESS EXCLUSIVE', j.others);
    PERFORM id_gen_convert.check_row_security(j, false);
    PERFORM id_gen_convert.check_partitions(j);
    changed := (id_gen_convert.changes(j)).changed;
    IF changed IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('objects that depend on column %I of relation %s have changed', j.column_name, j.relation),
            DETAIL = format('Added, changed or dropped since the job began: %s.', changed),
            HINT = format('Revert these changes until after the switch, or undo the job and start again: CALL id_gen_convert.undo(%s);', arguments);
    END IF;
    PERFORM id_gen_convert.refuse_losses(j, id_gen_convert.losses(j.id));
    PERFORM id_gen_convert.check_triggers(j);
    IF j.verified_triggers IS DISTINCT FROM id_gen_convert.trigger_versions(j) THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('triggers of the conversion of %s were changed after the values were verified', j.relation),
            DETAIL = 'Rows written since then may have wrong values.',
            HINT = format('Run: SELECT * FROM id_gen_convert.verify(%s);', arguments);
    END IF;
    meant := id_gen_convert.meanings(j.id);
    PERFORM id_gen_convert.execute_all(j.id, 'switch');
    PERFORM id_gen_convert.refuse_losses(j, id_gen_convert.other_meanings(j.id, meant, id_gen_convert.meanings(j.id)));
    UPDATE id_gen_convert.job
       SET phase = 'switched', done = 0, dependents = id_gen_convert.dependents(j.id),
           meanings = meant, meant_in = 'id_gen_convert'::regnamespace
     WHERE id = j.id;
    PERFORM id_gen_convert.record_partitions(j.id);
    RAISE NOTICE '%: switched; to undo: CALL id_gen_convert.undo(%); to keep the new column: SELECT id_gen_convert.finish(%);', j.relation, arguments, arguments;
END $$;
COMMENT ON FUNCTION id_gen_convert.switch(regclass, text) IS 'replace the old values with the verified new ones; the old ones are kept';

-- Drops the schema, unless something that is not in it uses it.
CREATE FUNCTION id_gen_convert.drop_schema() RETURNS void
    LANGUAGE plpgsql @settings@ SET client_min_messages = warning
    AS $$
DECLARE
    each text;
    users text;
BEGIN
    FOR each IN SELECT format('DROP ROUTINE %s', oid::regprocedure) FROM pg_proc WHERE pronamespace = 'id_gen_convert'::regnamespace LOOP
        EXECUTE each;
    END LOOP;
    DROP VIEW id_gen_convert.progress;
    DROP TABLE id_gen_convert.job, id_gen_convert.member, id_gen_convert.statement, id_gen_convert.fill,
               id_gen_convert.trigger_of, id_gen_convert.part, id_gen_convert.partition, id_gen_convert.full_tick;
    DROP SCHEMA id_gen_convert;
EXCEPTION WHEN dependent_objects_still_exist THEN
    GET STACKED DIAGNOSTICS users = PG_EXCEPTION_DETAIL;
    RAISE WARNING USING
        MESSAGE = 'schema id_gen_convert was not dropped because other objects use it',
        DETAIL = users,
        HINT = 'Drop these objects, and then the schema: DROP SCHEMA id_gen_convert CASCADE;';
END $$;
COMMENT ON FUNCTION id_gen_convert.drop_schema() IS 'drop the schema of the jobs, unless other objects use it';

-- Partitions may have a NOT NULL of their own: the key of each has made one, from PostgreSQL 18 on.
CREATE FUNCTION id_gen_convert.drop_not_null(table_name text, column_name text) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    each regclass;
BEGIN
    FOR each IN SELECT to_regclass(table_name) WHERE to_regclass(table_name) IS NOT NULL
                UNION ALL SELECT id_gen_convert.parts(to_regclass(table_name)) LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', each, column_name);
    END LOOP;
END $$;
COMMENT ON FUNCTION id_gen_convert.drop_not_null(text, text) IS 'drop NOT NULL of a table and of its partitions';

-- The next number of a sequence's own series that is beyond all values of a column; NULL if the sequence is already beyond them.
-- Values in the last thousandth of its range are ignored, or those without a number beyond them: most are markers such as the
-- largest integer, and would leave no numbers for new rows.
CREATE FUNCTION id_gen_convert.next_beyond(sequence regclass, relation regclass, column_name text) RETURNS bigint
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    s pg_sequence;
    room numeric;
    next numeric;
    furthest numeric;
BEGIN
    SELECT * INTO s FROM pg_sequence WHERE seqrelid = sequence;
    room := greatest(abs(s.seqincrement), trunc((s.seqmax::numeric - s.seqmin) / 1000));
    EXECUTE format('SELECT last_value::numeric + CASE WHEN is_called THEN %s ELSE 0 END FROM %s', s.seqincrement, sequence) INTO next;
    IF s.seqincrement > 0 THEN
        EXECUTE format('SELECT max(t.%1$I) FROM %2$s t WHERE t.%1$I <= $1', column_name, relation) INTO furthest USING (s.seqmax - room)::bigint;
    ELSE
        EXECUTE format('SELECT min(t.%1$I) FROM %2$s t WHERE t.%1$I >= $1', column_name, relation) INTO furthest USING (s.seqmin + room)::bigint;
    END IF;
    RETURN CASE WHEN (furthest - next) * sign(s.seqincrement) >= 0 THEN next + (div(furthest - next, s.seqincrement) + 1) * s.seqincrement END;
END $$;
COMMENT ON FUNCTION id_gen_convert.next_beyond(regclass, regclass, text) IS 'number that a sequence has to continue with to be beyond the values of a column';

-- Clients may have inserted values without the sequence, which the switch has locked. Unlike setval(), ALTER SEQUENCE is rolled
-- back with its transaction.
CREATE FUNCTION id_gen_convert.catch_up(sequence regclass, relation regclass, column_name text) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    next bigint := id_gen_convert.next_beyond(sequence, relation, column_name);
BEGIN
    IF next IS NOT NULL THEN
        EXECUTE format('ALTER SEQUENCE %s RESTART %s', sequence, next);
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.catch_up(regclass, regclass, text) IS 'continue a sequence beyond the values of a column';

-- Ends a job; the last one takes the schema with it.
CREATE FUNCTION id_gen_convert.forget(job_id integer) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
BEGIN
    DELETE FROM id_gen_convert.job WHERE id = job_id;
    IF NOT EXISTS (SELECT FROM id_gen_convert.job) THEN
        PERFORM id_gen_convert.drop_schema();
    END IF;
END $$;
COMMENT ON FUNCTION id_gen_convert.forget(integer) IS 'delete a job, and the schema with the last job';

-- A later job may have the same tables. It has twins of what this one has made, so it ends first: it is undone before this one
-- is, and finished before this one is.
CREATE FUNCTION id_gen_convert.later_job(job_id integer) RETURNS text
    LANGUAGE sql STABLE @settings@
    AS $$
        SELECT id_gen_convert.arguments(k.relation, k.column_name) FROM id_gen_convert.job k
         WHERE k.id > job_id AND EXISTS (
             SELECT FROM id_gen_convert.member a JOIN id_gen_convert.member b USING (relation) WHERE a.job = job_id AND b.job = k.id)
         ORDER BY k.id DESC LIMIT 1
    $$;
COMMENT ON FUNCTION id_gen_convert.later_job(integer) IS 'the latest job of the same tables';

-- One step of going back. Returns whether there is another.
CREATE FUNCTION id_gen_convert.undo_step(relation regclass, column_name text, force boolean DEFAULT false) RETURNS boolean
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job := id_gen_convert.locked_job(relation, column_name);
    later text := id_gen_convert.later_job(j.id);
    f id_gen_convert.fill;
    s id_gen_convert.statement;
    missing bigint;
    c record;
    lacking text;
    present jsonb;
    arguments text := id_gen_convert.arguments(j.relation, j.column_name);
BEGIN
    IF later IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('a later job is converting tables of %s', j.relation),
            HINT = format('Undo that job first: CALL id_gen_convert.undo(%s);', later);
    END IF;
    IF j.phase = 'switched' THEN
        PERFORM id_gen_convert.check_key(j);
        PERFORM id_gen_convert.check_row_security(j, true);
        -- Before the lock, since reading all rows takes time: from the switch on, triggers set both.
        lacking := id_gen_convert.lacking(j.id);
        FOR f IN SELECT * FROM id_gen_convert.fill AS of_table WHERE job = j.id AND of_table.relation IN (SELECT oid FROM pg_class) AND lacking IS NULL LOOP
            EXECUTE format('SELECT count(*) FROM (SELECT FROM %s t WHERE %s LIMIT 1000) AS other', f.relation, f.diverged) INTO missing;
            IF missing > 0 AND NOT force THEN
                RAISE object_not_in_prerequisite_state USING
                    MESSAGE = format('old values in rows of %s do not match the rows that they reference', f.relation),
                    DETAIL = format('At least %s such rows exist.', missing),
                    HINT = format('To set these values: UPDATE %s t SET %s WHERE %s; to undo with the old values as they are: CALL id_gen_convert.undo(%s, force => true);', f.relation, f.restoring, f.diverged, arguments);
            END IF;
            EXECUTE format('SELECT count(*) FROM (SELECT FROM %s t WHERE %s LIMIT 1000) AS lacking', f.relation, f.unreturned) INTO missing;
            IF missing > 0 THEN
                RAISE object_not_in_prerequisite_state USING
                    MESSAGE = format('rows of %s have no old value to go back to', f.relation),
                    DETAIL = format('At least %s such rows exist.', missing),
                    HINT = id_gen_convert.missing_values(f);
            END IF;
        END LOOP;
        PERFORM id_gen_convert.lock_tables(j.tables, 'ACCESS EXCLUSIVE', j.others);
        PERFORM id_gen_convert.check_partitions(j);
        c := id_gen_convert.changes(j);
        lacking := id_gen_convert.lacking(j.id);
        IF c.changed IS NOT NULL AND NOT force OR c.added IS NOT NULL OR lacking IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('objects that depend on column %I of relation %s have changed since the switch', j.column_name, j.relation),
                DETAIL = concat_ws(' ', 'An undo would revert them: ' || c.changed || '.', 'An undo needs ' || lacking || '.'),
                HINT = format('To keep the new column: SELECT id_gen_convert.finish(%1$s); '
                              || CASE WHEN c.renamed IS NOT NULL THEN 'to undo, first rename back what was renamed, if any of these was: %2$s; and then run: CALL id_gen_convert.undo(%1$s);'
                                      WHEN c.added IS NOT NULL THEN 'to undo, first %3$s, and then run: CALL id_gen_convert.undo(%1$s);'
                                      WHEN lacking IS NOT NULL THEN 'to undo, first rename back or recreate %4$s, and then run: CALL id_gen_convert.undo(%1$s);'
                                      ELSE 'to revert these changes, too: CALL id_gen_convert.undo(%1$s, force => true);' END,
                              arguments, c.renamed, c.added, lacking);
        END IF;
        IF NOT force THEN
            PERFORM id_gen_convert.refuse_losses(j, id_gen_convert.losses(j.id));
            PERFORM id_gen_convert.check_triggers(j);
        END IF;
        present := id_gen_convert.meanings(j.id);
        PERFORM id_gen_convert.refuse_losses(j, id_gen_convert.other_meanings(j.id, j.meanings, id_gen_convert.with_present_types(j.meanings), present));
        PERFORM id_gen_convert.refuse_losses(j, id_gen_convert.strange_constants(j));
        PERFORM id_gen_convert.execute_all(j.id, 'unswitch');
        PERFORM id_gen_convert.refuse_losses(j, id_gen_convert.other_meanings(j.id, j.meanings, id_gen_convert.meanings(j.id), present));
        UPDATE id_gen_convert.job SET phase = 'returned', done = 0 WHERE id = j.id;
        RETURN true;
    END IF;
    IF j.phase = 'returned' THEN
        SELECT * INTO s FROM id_gen_convert.statement WHERE job = j.id AND phase = 'revalidate' AND place = j.done + 1;
        IF FOUND THEN
            PERFORM id_gen_convert.execute_one(s);
            UPDATE id_gen_convert.job SET done = done + 1 WHERE id = j.id;
            RETURN true;
        END IF;
    END IF;
    PERFORM id_gen_convert.lock_tables(j.tables, 'ACCESS EXCLUSIVE');
    PERFORM id_gen_convert.check_partitions(j);
    PERFORM id_gen_convert.check_dropped_columns(j);
    PERFORM id_gen_convert.execute_all(j.id, 'clean');
    PERFORM id_gen_convert.forget(j.id);
    RETURN false;
END $$;
COMMENT ON FUNCTION id_gen_convert.undo_step(regclass, text, boolean) IS 'run one step of an undo; whether there is another';

CREATE PROCEDURE id_gen_convert.undo(relation regclass, column_name text, force boolean DEFAULT false)
    LANGUAGE plpgsql
    AS $$
DECLARE
    is_more boolean;
BEGIN
    LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        is_more := id_gen_convert.undo_step(relation, column_name, force);
        COMMIT;
        EXIT WHEN NOT is_more;
    END LOOP;
END $$;
COMMENT ON PROCEDURE id_gen_convert.undo(regclass, text, boolean) IS 'undo a job in any phase; force: even if dependent objects have changed; not in a transaction block';

CREATE FUNCTION id_gen_convert.finish(relation regclass, column_name text, keep_old boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql @settings@
    AS $$
DECLARE
    j id_gen_convert.job := id_gen_convert.locked_job(relation, column_name);
    later text := id_gen_convert.later_job(j.id);
BEGIN
    IF j.phase <> 'switched' THEN
        PERFORM id_gen_convert.wrong_phase(j, 'switched');
    END IF;
    IF later IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('a later job is converting tables of %s', j.relation),
            DETAIL = 'It needs objects that this command would drop.',
            HINT = format('Finish that job first: SELECT id_gen_convert.finish(%1$s); or undo it: CALL id_gen_convert.undo(%1$s);', later);
    END IF;
    PERFORM id_gen_convert.lock_tables(j.tables, 'ACCESS EXCLUSIVE');
    PERFORM id_gen_convert.check_partitions(j);
    PERFORM id_gen_convert.check_dropped_columns(j);
    PERFORM id_gen_convert.execute_all(j.id, CASE WHEN keep_old THEN 'keep' ELSE 'finish' END);
    PERFORM id_gen_convert.forget(j.id);
END $$;
COMMENT ON FUNCTION id_gen_convert.finish(regclass, text, boolean) IS 'end a job after the switch; drops the old values unless keep_old; no undo';

-- What the owner lets others do with new objects by default is not meant for these: what is written here is run, and whoever
-- could make a function here could have it called in place of one of these.
DO $$
DECLARE
    each record;
BEGIN
    FOR each IN
        WITH object (kind, name, owner, acl) AS (
            SELECT 'SCHEMA', nspname::text, nspowner, nspacl FROM pg_namespace WHERE nspname = 'id_gen_convert'
             UNION ALL
            SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, oid::regclass::text, relowner, relacl
              FROM pg_class WHERE relnamespace = 'id_gen_convert'::regnamespace AND relkind IN ('r', 'v', 'S')
             UNION ALL
            SELECT 'ROUTINE', oid::regprocedure::text, proowner, coalesce(proacl, acldefault('f', proowner))
              FROM pg_proc WHERE pronamespace = 'id_gen_convert'::regnamespace)
        SELECT DISTINCT kind, name, CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role
          FROM object, LATERAL aclexplode(acl) AS x WHERE x.grantee <> owner
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM %s', each.kind, each.name, each.role);
    END LOOP;
END $$;
