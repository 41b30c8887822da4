//! Indexes of a column: each gets a twin on the column with the new values, made by a client, since `CONCURRENTLY` runs in no
//! function. In the switch the twin takes the name, and a primary key its index.
//!
//! A primary key loses its index when it is dropped. So that there is a way back, and old values can be looked up, it gets a
//! second index on the old column beforehand. Of a partitioned table the parent's index is made from those of the
//! partitions.

use id_gen_base::catalog::string;
use id_gen_base::pg::text::{Text, literal, quoted};
use id_gen_core::sql_text::{find, rename_column};

use crate::convert::online::columns::{Member, query_about, refuse_other_meaning};
use crate::convert::online::names::Names;
use crate::convert::online::script::{Phase, Remade, Script, rank};
use crate::error::Error;
use crate::query::rows;

/// An index that has one of the columns.
struct Index {
    oid: i64,
    /// The table that it is on, as one types it, and whether that is partitioned.
    table: String,
    is_partitioned: bool,
    /// The parent's index, if it is a partition's.
    parent: i64,
    name: String,
    /// What its twin is called, and it itself beside that.
    new_name: String,
    old_name: String,
    /// Its schema, as one types it.
    schema: String,
    /// What stands behind the table's name: method, columns and the rest.
    body: String,
    is_unique: bool,
    /// Whether rows may violate it that have no old value.
    may_reject_null: bool,
    /// `p` or `u` if it is a primary key's or a unique constraint's.
    constraint: Option<char>,
    /// The constraint's definition.
    definition: String,
    is_replica_identity: bool,
    is_clustered: bool,
    comment: Option<String>,
    constraint_comment: Option<String>,
    tablespace: Option<String>,
    /// The number of the table among the members.
    relation: u32,
    /// How often it uses the columns.
    uses: i64,
    /// Its expressions and its condition, as one condition; `None` if it has neither.
    terms: Option<String>,
    /// Its other columns, as `CREATE TABLE` defines them; `None` if the role may not use one of their types.
    other_columns: Option<String>,
}

impl Index {
    /// Whether it is a constraint that one of the same name takes the place of.
    fn is_primary(&self) -> bool {
        self.constraint == Some('p')
    }

    /// The statement that makes an index like this one.
    fn create(&self, how: &str, name: &str, body: &str) -> String {
        let unique = if self.is_unique { "UNIQUE " } else { "" };
        let (only, table) = (if self.is_partitioned { "ONLY " } else { "" }, &self.table);
        let place =
            self.tablespace.as_ref().map_or(String::new(), |name| format!(" TABLESPACE {name}"));
        // The last part of a definition may be its condition.
        let (body, condition) = body.split_at(find(body, " WHERE ").unwrap_or(body.len()));
        format!(
            "CREATE {unique}INDEX {how}{} ON {only}{table} {body}{place}{condition}",
            quoted(name)
        )
    }

    /// A text with the new columns in place of the old.
    fn renewed(&self, text: &str, members: &[Member]) -> String {
        members
            .iter()
            .filter(|member| member.relation == self.relation)
            .fold(text.to_owned(), |text, member| {
                rename_column(&text, &member.typed(), &member.typed_new())
            })
    }

    fn rename(&self, from: &str, to: &str) -> String {
        format!("ALTER INDEX {}.{} RENAME TO {}", self.schema, quoted(from), quoted(to))
    }

    fn rename_constraint(&self, from: &str, to: &str) -> String {
        format!("ALTER TABLE {} RENAME CONSTRAINT {} TO {}", self.table, quoted(from), quoted(to))
    }

    /// The statement that makes an index the constraint's, under the constraint's name.
    fn adopt(&self, index: &str) -> String {
        let kind = if self.is_primary() { "PRIMARY KEY" } else { "UNIQUE" };
        let deferrable =
            find(&self.definition, " DEFERRABLE").map_or("", |at| &self.definition[at..]);
        format!(
            "ALTER TABLE {} ADD CONSTRAINT {} {kind} USING INDEX {}{deferrable}",
            self.table,
            quoted(&self.name),
            quoted(index)
        )
    }

    fn drop_constraint(&self) -> String {
        format!("ALTER TABLE {} DROP CONSTRAINT {}", self.table, quoted(&self.name))
    }
}

/// Writes down what is to be done with them. The new columns have the type `type_name`. With `first_index`, unique indexes of
/// the first column are made before old rows get their values, so that those that are taken can be found.
///
/// # Errors
/// If the catalogs can't be read.
pub fn write(
    members: &[Member],
    names: &Names,
    type_name: &str,
    first_index: bool,
    script: &mut Script,
) -> Result<(), Error> {
    let indexes = of(members, names)?;
    let root = &members[0];
    for index in &indexes {
        let what = format!("index {}.{}", index.schema, quoted(&index.name));
        refuse_other_meaning(members, index.relation, &what, &index.body, index.uses)?;
        let body = index.renewed(&index.body, members);
        let finds_values = index.relation == root.relation
            && index.is_unique
            && body
                .strip_prefix(&format!("USING btree ({}", root.typed_new()))
                .is_some_and(|rest| rest.starts_with([',', ')', ' ']));
        let phase = if first_index && finds_values { Phase::FirstIndex } else { Phase::Index };
        if index.constraint.is_none() && index.parent == 0 {
            write_trial(index, members, type_name, &body, script);
        }
        write_one(index, &indexes, &body, phase, script);
    }
    Ok(())
}

/// What the index computes, as a check, which PostgreSQL only parses: its meaning is compared before anything runs. Its name has
/// the OID of the index. Then the index on an empty table with the columns that it uses: no row is read.
fn write_trial(
    index: &Index,
    members: &[Member],
    type_name: &str,
    body: &str,
    script: &mut Script,
) {
    let name = format!("{}.{}", index.schema, quoted(&index.name));
    let remade = Remade { object: format!("index {name}"), remedy: format!("DROP INDEX {name}") };
    let Index { oid, table, .. } = index;
    if let Some(terms) = &index.terms {
        let terms = index.renewed(terms, members);
        let add = format!(
            "ALTER TABLE {table} ADD CONSTRAINT id_gen_convert_like_{oid} CHECK ({terms}) NOT VALID"
        );
        script.add_remade(Phase::Trial, rank::TRIGGERS_GO, &remade, add);
    }
    let Some(other_columns) = &index.other_columns else { return };
    let own: Vec<String> = members
        .iter()
        .filter(|member| member.relation == index.relation)
        .map(Member::typed_new)
        .collect();
    let columns: String = own.iter().map(|column| format!("{column} {type_name}, ")).collect();
    // An event trigger may require the key, which cannot have all columns of a wide table.
    let key = &own[0];
    for text in [
        format!(
            "CREATE TABLE id_gen_convert.empty_{oid} ({columns}{other_columns}PRIMARY KEY ({key}))"
        ),
        format!("CREATE INDEX ON id_gen_convert.empty_{oid} {body}"),
    ] {
        script.add_remade(Phase::TrialIndex, 1, &remade, text);
    }
}

fn write_one(index: &Index, all: &[Index], body: &str, phase: Phase, script: &mut Script) {
    let (new, old) = (index.new_name.clone(), index.old_name.clone());
    let parts = || all.iter().filter(|part| part.parent == index.oid);
    let is_part_of_constraint = index.parent != 0 && index.constraint.is_some();
    if index.constraint.is_some() && index.is_partitioned {
        // The parent's index comes with the constraint, from those that the partitions have by then.
        let add = format!(
            "ALTER TABLE {} ADD CONSTRAINT {} {}",
            index.table,
            quoted(&index.name),
            index.definition
        );
        script.add(Phase::Switch, rank::NAMES_GO, index.drop_constraint());
        script.add_back(rank::NAMES_GO, &index.table, &index.name, index.drop_constraint());
        for part in parts() {
            script.add(Phase::Switch, rank::INDEXES, part.adopt(&part.new_name));
            let adopt = part.adopt(&part.old_name);
            script.add_back(rank::INDEXES, &part.table, &part.old_name, adopt);
        }
        for way in [Phase::Switch, Phase::Unswitch] {
            script.add(way, rank::CONSTRAINTS, add.clone());
        }
    } else if index.is_partitioned {
        let lock = Some((vec![index.table.clone()], "SHARE"));
        script.add_made(Phase::Attach, &index.table, &new, lock, index.create("", &new, body));
        for part in parts() {
            let attach = format!(
                "ALTER INDEX {}.{} ATTACH PARTITION {}.{}",
                index.schema,
                quoted(&new),
                part.schema,
                quoted(&part.new_name)
            );
            // It locks the partition's index, which all who plan a query of the partition lock, too.
            let lock = (vec![part.table.clone()], "ACCESS EXCLUSIVE");
            script.add_locked(Phase::Attach, 1, lock, attach);
        }
        swap(index, &new, &old, script);
    } else {
        script.add_made(phase, &index.table, &new, None, index.create("CONCURRENTLY ", &new, body));
        if index.is_primary() || is_part_of_constraint {
            script.add_made(
                Phase::Index,
                &index.table,
                &old,
                None,
                index.create("CONCURRENTLY ", &old, &index.body),
            );
            script.add(
                Phase::Clean,
                1,
                format!("DROP INDEX IF EXISTS {}.{}", index.schema, quoted(&old)),
            );
            if !is_part_of_constraint {
                script.add(Phase::Switch, rank::NAMES_GO, index.drop_constraint());
                script.add(Phase::Switch, rank::INDEXES, index.adopt(&new));
                script.add_back(rank::NAMES_GO, &index.table, &index.name, index.drop_constraint());
                script.add_back(rank::INDEXES, &index.table, &old, index.adopt(&old));
            }
        } else if index.constraint.is_some() {
            if index.may_reject_null {
                let (table, old) = (&index.table, quoted(&old));
                let drop = format!("ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {old}");
                script.add(Phase::Keep, rank::NAMES_GO, drop);
            }
            script.add(Phase::Switch, rank::NAMES_GO, index.rename_constraint(&index.name, &old));
            script.add(Phase::Switch, rank::INDEXES, index.adopt(&new));
            script.add_back(rank::NAMES_GO, &index.table, &index.name, index.drop_constraint());
            let rename = index.rename_constraint(&old, &index.name);
            script.add_back(rank::INDEXES, &index.table, &old, rename);
        } else {
            swap(index, &new, &old, script);
        }
    }
    // That of a partition goes with its parent's; that of a constraint is the constraint's.
    let is_by_itself = is_part_of_constraint || (index.constraint.is_none() && index.parent == 0);
    if index.may_reject_null && is_by_itself {
        let drop = format!("DROP INDEX IF EXISTS {}.{}", index.schema, quoted(&index.old_name));
        script.add(Phase::Keep, rank::NAMES_GO, drop);
    }
    describe(index, script);
}

/// Swaps the names of an index and its twin.
fn swap(index: &Index, new: &str, old: &str, script: &mut Script) {
    script.add(Phase::Switch, rank::NAMES_GO, index.rename(&index.name, old));
    script.add(Phase::Switch, rank::INDEXES, index.rename(new, &index.name));
    let give_back = index.rename(&index.name, new);
    script.add_about(Phase::Unswitch, rank::NAMES_GO, &index.table, give_back);
    script.add_back(rank::INDEXES, &index.table, old, index.rename(old, &index.name));
}

/// What is said of an index, and what it is for beside finding rows.
fn describe(index: &Index, script: &mut Script) {
    let (name, table) = (quoted(&index.name), &index.table);
    let mut texts = Vec::new();
    if index.is_replica_identity {
        texts.push(format!("ALTER TABLE {table} REPLICA IDENTITY USING INDEX {name}"));
    }
    if index.is_clustered {
        texts.push(format!("ALTER TABLE {table} CLUSTER ON {name}"));
    }
    if let Some(comment) = &index.constraint_comment {
        texts.push(format!("COMMENT ON CONSTRAINT {name} ON {table} IS {}", literal(comment)));
    }
    if let Some(comment) = &index.comment {
        texts.push(format!("COMMENT ON INDEX {}.{name} IS {}", index.schema, literal(comment)));
    }
    for text in texts {
        script.add(Phase::Switch, rank::DESCRIPTIONS, text.clone());
        script.add_about(Phase::Unswitch, rank::DESCRIPTIONS, table, text);
    }
}

fn of(members: &[Member], names: &Names) -> Result<Vec<Index>, Error> {
    const QUERY: &str = "
        , used AS (
            SELECT DISTINCT i.indexrelid, p.own
              FROM place p JOIN pg_index i ON i.indrelid = p.relation
             WHERE p.number = ANY (i.indkey::smallint[])
                OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                              AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relation AND d.refobjsubid = p.number))
        SELECT c.oid::bigint, i.indrelid::regclass::text, c.relkind = 'I',
               coalesce((SELECT inhparent FROM pg_inherits WHERE inhrelid = c.oid), 0)::bigint,
               c.relname::text, c.relnamespace::regnamespace::text, pg_get_indexdef(c.oid), i.indisunique,
               k.contype::text,
               -- That of a partitioned table makes the index.
               pg_get_constraintdef(k.oid) || CASE c.relkind WHEN 'I' THEN concat(
                   ' WITH (' || array_to_string(c.reloptions, ', ') || ')',
                   ' USING INDEX TABLESPACE ' || (SELECT quote_ident(spcname) FROM pg_tablespace WHERE oid = c.reltablespace)) ELSE '' END,
               i.indisreplident,
               obj_description(c.oid, 'pg_class'), u.own::bigint, i.indisclustered, obj_description(k.oid, 'pg_constraint'),
               (SELECT quote_ident(spcname) FROM pg_tablespace WHERE oid = c.reltablespace),
               i.indexrelid IN (SELECT index FROM strict),
               (SELECT count(*) FILTER (WHERE key = p.number) FROM place p, unnest(i.indkey::smallint[]) AS key WHERE p.relation = i.indrelid)
               + (SELECT sum(regexp_count(concat(i.indexprs::text, i.indpred::text), ':varattno ' || p.number || '\\M'))::bigint
                    FROM place p WHERE p.relation = i.indrelid),
               nullif(concat_ws(' AND ',
                   (SELECT string_agg('(' || pg_get_indexdef(c.oid, place::integer, false) || ') IS NOT NULL', ' AND ' ORDER BY place)
                      FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS key (number, place) WHERE number = 0),
                   pg_get_expr(i.indpred, i.indrelid)), ''),
               (SELECT CASE WHEN bool_and(has_type_privilege(t.oid, 'USAGE') AND has_schema_privilege(t.typnamespace, 'USAGE')
                                          AND coalesce(has_schema_privilege(l.collnamespace, 'USAGE'), true)) IS NOT FALSE
                            THEN concat(string_agg(format('%I %s%s, ', a.attname, format_type(t.oid, a.atttypmod), ' COLLATE ' || l.oid::regcollation), '')) END
                  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
                 WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND (a.attrelid, a.attnum) NOT IN (SELECT relation, number FROM place)
                   AND (a.attnum = ANY (i.indkey::smallint[])
                        OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                                      AND d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum)))
          FROM used u JOIN pg_index i USING (indexrelid) JOIN pg_class c ON c.oid = i.indexrelid
          LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype IN ('p', 'u')
         WHERE i.indisvalid
         ORDER BY 2, k.contype = 'p' DESC, 5";
    rows(&query_about(members, QUERY), &[], |row| {
        let number = |place| row.get::<i64>(place).map(Option::unwrap_or_default);
        let definition = string(row.get(7)?);
        let using = find(&definition, " USING ").map_or("", |at| &definition[at + 1..]);
        let (oid, name) = (number(1)?, string(row.get(5)?));
        Ok(Index {
            oid,
            table: string(row.get(2)?),
            is_partitioned: row.get(3)?.unwrap_or(false),
            parent: number(4)?,
            new_name: names.of_new(&name, oid as u32),
            old_name: names.of_old(&name, oid as u32),
            name,
            schema: string(row.get(6)?),
            body: using.to_owned(),
            is_unique: row.get(8)?.unwrap_or(false),
            may_reject_null: row.get(17)?.unwrap_or(false),
            constraint: string(row.get(9)?).chars().next(),
            definition: string(row.get(10)?),
            is_replica_identity: row.get(11)?.unwrap_or(false),
            comment: row.get::<Text>(12)?.map(|text| text.0),
            relation: u32::try_from(number(13)?).unwrap_or(0),
            is_clustered: row.get(14)?.unwrap_or(false),
            constraint_comment: row.get::<Text>(15)?.map(|text| text.0),
            tablespace: row.get::<Text>(16)?.map(|text| text.0),
            uses: number(18)?,
            terms: row.get::<Text>(19)?.map(|text| text.0),
            other_columns: row.get::<Text>(20)?.map(|text| text.0),
        })
    })
}
