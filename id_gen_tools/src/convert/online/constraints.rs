//! Checks and foreign keys of a column: each gets a twin with the new columns, added without looking at rows, and validated
//! later, while the table is in use. In the switch the twin takes the name.
//!
//! A foreign key between partitions can't be added so before PostgreSQL 18; there each partition gets one, and that of the
//! partitioned table is made from them.

use id_gen_base::catalog::string;
use id_gen_base::pg::text::{Text, literal, quoted};
use id_gen_core::sql_text::{find, rename_column};

use crate::convert::online::columns::{Member, query_about, refuse_other_meaning};
use crate::convert::online::names::Names;
use crate::convert::online::script::{Phase, Remade, Script, rank};
use crate::error::Error;
use crate::query::rows;

/// A constraint that names one of the columns.
struct Constraint {
    oid: i64,
    table: String,
    relation: u32,
    name: String,
    definition: String,
    comment: Option<String>,
    /// For a foreign key: what it refers to.
    referenced: Option<(u32, String)>,
    /// For a foreign key of a partitioned table: the partitions, and the names of their parts of it.
    parts: Vec<(String, String)>,
    is_partitioned: bool,
    /// For a check: how often it uses the columns.
    uses: i64,
}

impl Constraint {
    /// The definition without what says that not all rows are known to fulfil it, and whether that is said.
    fn valid_definition(&self) -> (&str, bool) {
        match self.definition.strip_suffix(" NOT VALID") {
            Some(definition) => (definition, false),
            None => (&self.definition, true),
        }
    }

    /// With the new columns in place of the old.
    fn new_definition(&self, members: &[Member]) -> String {
        let rename = |text: &str, relation: u32| {
            members
                .iter()
                .filter(|member| member.relation == relation)
                .fold(text.to_owned(), |text, member| {
                    rename_column(&text, &member.typed(), &member.typed_new())
                })
        };
        let (definition, _) = self.valid_definition();
        let Some((referenced, table)) = &self.referenced else {
            return rename(definition, self.relation);
        };
        // FOREIGN KEY (columns here) REFERENCES table(columns there) what happens, also with columns here.
        let reference = format!(" REFERENCES {table}(");
        let Some(at) = find(definition, &reference) else { return definition.to_owned() };
        let (own, rest) = definition.split_at(at);
        let rest = &rest[reference.len()..];
        let (there, actions) = rest.split_at(find(rest, ")").unwrap_or(rest.len()));
        format!(
            "{}{reference}{}{}",
            rename(own, self.relation),
            rename(there, *referenced),
            rename(actions, self.relation)
        )
    }

    fn add(table: &str, name: &str, definition: &str) -> String {
        format!("ALTER TABLE {table} ADD CONSTRAINT {} {definition}", quoted(name))
    }

    fn rename(table: &str, from: &str, to: &str) -> String {
        format!("ALTER TABLE {table} RENAME CONSTRAINT {} TO {}", quoted(from), quoted(to))
    }

    fn validate(table: &str, name: &str) -> String {
        format!("ALTER TABLE {table} VALIDATE CONSTRAINT {}", quoted(name))
    }

    fn drop(table: &str, name: &str) -> String {
        format!("ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {}", quoted(name))
    }
}

/// Writes down what is to be done with them. `has_old_values` says whether new rows get an old value after the switch.
///
/// # Errors
/// If the catalogs can't be read.
pub fn write(
    members: &[Member],
    names: &Names,
    has_old_values: bool,
    script: &mut Script,
) -> Result<(), Error> {
    for constraint in of(members)? {
        let distinct = constraint.oid as u32;
        let new = names.of_new(&constraint.name, distinct);
        let definition = constraint.new_definition(members);
        if constraint.referenced.is_some() {
            write_reference(&constraint, &new, &definition, script);
        } else {
            let Constraint { table, name, relation, definition: text, uses, .. } = &constraint;
            let what = format!("constraint {} of {table}", quoted(name));
            refuse_other_meaning(members, *relation, &what, text, *uses)?;
            let old = names.of_old(&constraint.name, distinct);
            write_check(&constraint, &new, &old, &definition, has_old_values, script);
        }
        if let Some(comment) = &constraint.comment {
            let (name, table) = (quoted(&constraint.name), &constraint.table);
            let comment = literal(comment);
            // That of a partitioned table comes back last.
            let back = if constraint.is_partitioned {
                (Phase::Revalidate, 3)
            } else {
                (Phase::Unswitch, rank::DESCRIPTIONS)
            };
            for (way, place) in [(Phase::Switch, rank::DEFAULTS), back] {
                script.add(
                    way,
                    place,
                    format!("COMMENT ON CONSTRAINT {name} ON {table} IS {comment}"),
                );
            }
        }
    }
    Ok(())
}

/// The old check stays beside its twin while new rows have old values. It goes as soon as they have none, since it may reject
/// NULL.
fn write_check(
    constraint: &Constraint,
    new: &str,
    old: &str,
    definition: &str,
    has_old_values: bool,
    script: &mut Script,
) {
    let Constraint { table, name, .. } = constraint;
    let add = Constraint::add(table, new, &format!("{definition} NOT VALID"));
    let lock = Some((vec![table.clone()], "ACCESS EXCLUSIVE"));
    let drop = format!("ALTER TABLE {table} DROP CONSTRAINT {}", quoted(name));
    let object = format!("table constraint {} on {table}", quoted(name));
    let remade = Remade { object, remedy: drop.clone() };
    script.add_remade(Phase::Trial, rank::TRIGGERS_GO, &remade, add.clone());
    script.add(Phase::Trial, rank::NAMES_GO, drop);
    script.add(Phase::Trial, rank::CONSTRAINTS, Constraint::rename(table, new, name));
    script.add_twin(&remade, table, new, lock, add);
    let (old_definition, is_valid) = constraint.valid_definition();
    if is_valid {
        script.add(Phase::Check, 1, Constraint::validate(table, new));
    }
    if has_old_values {
        script.add(Phase::Switch, rank::NAMES_GO, Constraint::rename(table, name, old));
        let rename = Constraint::rename(table, old, name);
        script.add_back(rank::CONSTRAINTS, table, old, rename);
        script.add(Phase::Keep, rank::NAMES_GO, Constraint::drop(table, old));
    } else {
        script.add(Phase::Switch, rank::NAMES_GO, Constraint::drop(table, name));
        let add = Constraint::add(table, name, &format!("{old_definition} NOT VALID"));
        script.add(Phase::Unswitch, rank::CONSTRAINTS, add);
        if is_valid {
            script.add(Phase::Revalidate, 1, Constraint::validate(table, name));
        }
    }
    script.add(Phase::Switch, rank::CONSTRAINTS, Constraint::rename(table, new, name));
    script.add_back(rank::NAMES_GO, table, name, Constraint::rename(table, name, new));
}

/// The old foreign key goes in the switch, since it needs the primary key that goes then.
fn write_reference(constraint: &Constraint, new: &str, definition: &str, script: &mut Script) {
    let Constraint { table, name, referenced, parts, .. } = constraint;
    let (old_definition, is_valid) = constraint.valid_definition();
    let tables = |table: &str| {
        let referenced = referenced.iter().map(|(_, table)| table.clone());
        referenced.chain([table.to_owned()]).collect::<Vec<_>>()
    };
    let drop = Constraint::drop(table, name);
    let mut add_new = |table: &str| {
        let add = Constraint::add(table, new, &format!("{definition} NOT VALID"));
        script.add_made(
            Phase::Reference,
            table,
            new,
            Some((tables(table), "SHARE ROW EXCLUSIVE")),
            add,
        );
        if is_valid {
            script.add(Phase::Reference, 1, Constraint::validate(table, new));
        }
        let name = quoted(new);
        script.add(
            Phase::Clean,
            1,
            format!("ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}"),
        );
    };
    if constraint.is_partitioned {
        for (part, _) in parts {
            add_new(part);
        }
    } else {
        add_new(table);
    }
    script.add(Phase::Switch, rank::REFERENCES_GO, drop.clone());
    script.add(Phase::Unswitch, rank::REFERENCES_GO, drop);
    if constraint.is_partitioned {
        for (part, part_name) in parts {
            script.add(Phase::Switch, rank::CONSTRAINTS, Constraint::rename(part, new, part_name));
            let add = Constraint::add(part, part_name, &format!("{old_definition} NOT VALID"));
            script.add_about(Phase::Unswitch, rank::CONSTRAINTS, part, add);
            let validate = Constraint::validate(part, part_name);
            script.add_about(Phase::Revalidate, 1, part, validate);
        }
        // By then the columns have their old names again.
        script.add(Phase::Switch, rank::DESCRIPTIONS, Constraint::add(table, name, old_definition));
        let lock = (tables(table), "SHARE ROW EXCLUSIVE");
        script.add_locked(Phase::Revalidate, 2, lock, Constraint::add(table, name, old_definition));
    } else {
        script.add(Phase::Switch, rank::CONSTRAINTS, Constraint::rename(table, new, name));
        script.add(
            Phase::Unswitch,
            rank::CONSTRAINTS,
            Constraint::add(table, name, &format!("{old_definition} NOT VALID")),
        );
        if is_valid {
            script.add(Phase::Revalidate, 1, Constraint::validate(table, name));
        }
    }
}

fn of(members: &[Member]) -> Result<Vec<Constraint>, Error> {
    const QUERY: &str = "
        SELECT DISTINCT k.oid::bigint, k.conrelid::regclass::text, k.conrelid::bigint, k.conname::text, pg_get_constraintdef(k.oid),
               obj_description(k.oid, 'pg_constraint'), nullif(k.confrelid, 0)::bigint, nullif(k.confrelid, 0)::regclass::text,
               (SELECT relkind = 'p' FROM pg_class WHERE oid = k.conrelid),
               (SELECT sum(regexp_count(k.conbin::text, ':varattno ' || q.number || '\\M')) FROM member q WHERE q.relation = k.conrelid)
          FROM member m
          JOIN pg_constraint k ON k.conparentid = 0 AND k.contype IN ('c', 'f')
               AND (k.conrelid = m.relation AND m.number = ANY (k.conkey) OR k.confrelid = m.relation AND m.number = ANY (k.confkey))
         ORDER BY 2, 4";
    const PARTS: &str = "
        SELECT conrelid::regclass::text, conname::text FROM pg_constraint
         WHERE conparentid = $1::oid AND conrelid <> (SELECT conrelid FROM pg_constraint WHERE oid = $1::oid) ORDER BY 1";
    let mut constraints = rows(&query_about(members, QUERY), &[], |row| {
        let oid =
            |place| row.get::<i64>(place).map(|oid| oid.and_then(|oid| u32::try_from(oid).ok()));
        Ok(Constraint {
            oid: row.get(1)?.unwrap_or(0),
            table: string(row.get(2)?),
            relation: oid(3)?.unwrap_or(0),
            name: string(row.get(4)?),
            definition: string(row.get(5)?),
            comment: row.get::<Text>(6)?.map(|text| text.0),
            referenced: oid(7)?.zip(row.get::<Text>(8)?.map(|text| text.0)),
            is_partitioned: row.get(9)?.unwrap_or(false),
            uses: row.get(10)?.unwrap_or(0),
            parts: Vec::new(),
        })
    })?;
    for constraint in constraints.iter_mut().filter(|constraint| constraint.is_partitioned) {
        constraint.parts = rows(PARTS, &[constraint.oid.into()], |row| {
            Ok((string(row.get(1)?), string(row.get(2)?)))
        })?;
    }
    Ok(constraints)
}
