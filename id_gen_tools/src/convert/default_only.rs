//! Where values stay as they are: the column gets another default, and what filled it before is fenced.

use id_gen_base::catalog;
use id_gen_base::pg::text::{in_error, literal};
use id_gen_core::layout::Layout;
use id_gen_core::time::format_ms;

use crate::convert::column::{Identity, Source};
use crate::convert::refusal::Refusal;
use crate::convert::sequences::Sequence;
use crate::convert::step::{Step, Target};
use crate::convert::views::ViewColumn;
use crate::error::Error;
use crate::server::Server;

const ACCESS_EXCLUSIVE: &str = "ACCESS EXCLUSIVE";
const SHARE_ROW_EXCLUSIVE: &str = "SHARE ROW EXCLUSIVE";
const SHARE_UPDATE_EXCLUSIVE: &str = "SHARE UPDATE EXCLUSIVE";
const ACCESS_SHARE: &str = "ACCESS SHARE";

/// From where on a column has snowflakes.
struct Boundary {
    first: i64,
    at: String,
}

/// The statements, in their order.
///
/// # Errors
/// If the column has values that are yet to be made.
pub fn plan(source: &Source, target: Target) -> Result<Vec<Step>, Error> {
    let value = format!("{}.{}", source.column.generator_schema, target.generator());
    if target == Target::Uuidv7 {
        return Ok(vec![patience(), switch(source, &value, None)]);
    }
    let boundary = boundary(source)?;
    let mut steps = vec![patience()];
    steps.extend(source.views.iter().map(|column| switch_view(column, &value)));
    steps.push(switch(source, &value, Some(&boundary)));
    for sequence in source.sequences.iter().filter(|sequence| is_left(sequence)) {
        steps.extend(fence(source, sequence, &boundary));
    }
    steps.extend(record(source, &boundary));
    steps.push(check(source));
    Ok(steps)
}

/// The column's name, in an error.
fn shown(Source { column, .. }: &Source) -> String {
    in_error(&format!("{}.{}", column.table, column.name))
}

/// Refuses where stored values are yet to be made.
///
/// # Errors
/// That, or why none are made.
pub fn refuse_overlap(source: &Source) -> Result<(), Error> {
    boundary(source).map(|_| ())
}

/// The lowest snowflake that may be made from now on, which is above all that is stored. It is asked of a server that
/// makes snowflakes, or every insert would fail as soon as the default has changed.
fn boundary(source: &Source) -> Result<Boundary, Error> {
    let server = Server::ask()?;
    server.check_ready()?;
    let layout = server.layout()?;
    let first_ms = server.now_ms;
    let first = Layout::to_bigint(layout.min_of(layout.tick_from(first_ms)));
    match catalog::newest(&source.column)? {
        Some(largest) if largest >= first => Err(Refusal::Overlap {
            column: shown(source),
            arguments: in_error(&source.column.arguments),
            largest,
            first,
            first_ms,
        }
        .into()),
        _ => Ok(Boundary { first, at: format_ms(first_ms) }),
    }
}

/// So that no statement of the plan holds up others for long.
fn patience() -> Step {
    Step {
        statement: "SET lock_timeout = '1s'".to_owned(),
        lock_mode: None,
        in_transaction: true,
        undo: Some("RESET lock_timeout".to_owned()),
        note: "A statement that does not get its lock in time fails instead of blocking others.\nRun it again.".to_owned(),
    }
}

/// What gives a column a default, or none.
fn set_default(kind: &str, relation: &str, column: &str, value: Option<&str>) -> String {
    let action = value.map_or("DROP DEFAULT".to_owned(), |value| format!("SET DEFAULT {value}"));
    format!("ALTER {kind} {relation} ALTER COLUMN {column} {action}")
}

/// The new default of a view, which an insert through it goes by instead of the table's.
fn switch_view(ViewColumn { view, name, default }: &ViewColumn, value: &str) -> Step {
    Step {
        statement: set_default("VIEW", view, name, Some(value)),
        lock_mode: Some(ACCESS_EXCLUSIVE),
        in_transaction: true,
        undo: Some(set_default("VIEW", view, name, default.as_deref())),
        note: "Inserts through this view use its own default, which is from the old sequence."
            .to_owned(),
    }
}

/// The new default. All who insert after it get the new values.
fn switch(source: &Source, value: &str, boundary: Option<&Boundary>) -> Step {
    let (table, column) = (&source.column.table, &source.column.name);
    let identity = source.identity.and_then(|identity| {
        let sequence = source.sequences.iter().find(|sequence| sequence.is_identity)?;
        Some((identity, sequence))
    });
    let (statement, undo) = match (identity, boundary) {
        (Some((identity, sequence)), Some(boundary)) => (
            format!(
                "ALTER TABLE {table} ALTER COLUMN {column} DROP IDENTITY, ALTER COLUMN {column} SET DEFAULT {value}"
            ),
            identity_undo(source, identity, sequence, boundary),
        ),
        _ => (set_default("TABLE", table, column, Some(value)), default_undo(source)),
    };
    Step {
        statement,
        lock_mode: Some(ACCESS_EXCLUSIVE),
        in_transaction: true,
        undo: Some(undo),
        note: switch_note(source, boundary.is_some()),
    }
}

/// What to know of the new default.
fn switch_note(source: &Source, from_sequences: bool) -> String {
    let mut note =
        "Existing rows are not read or changed. Tables that inherit get the default, too."
            .to_owned();
    if let Some(setters) = &source.setters {
        note.push_str(&format!("\nThese may set the column: {setters}."));
    }
    if !from_sequences {
        return note;
    }
    for sequence in &source.sequences {
        let Sequence { name, is_identity, other_columns, named_by, .. } = sequence;
        if *is_identity {
            note.push_str(
                "\nDrops the identity and its sequence. Explicit values can then be inserted, too.",
            );
            let users: Vec<&str> =
                [other_columns, named_by].into_iter().flatten().map(String::as_str).collect();
            if !users.is_empty() {
                note.push_str(&format!(
                    "\nThese use its sequence and may prevent dropping it: {}.",
                    users.join(", ")
                ));
            }
        } else if let Some(others) = other_columns {
            note.push_str(&format!(
                "\nSequence {name} also fills {others};\nthe plan of the last of them fences it."
            ));
        }
    }
    if source.has_computed_sequence {
        note.push_str("\nA default calls nextval() with a text or an expression: its sequence is unknown.\nTo fence it, name the sequence and plan again: SET DEFAULT nextval('numbers')");
    } else if source.sequences.is_empty() {
        note.push_str("\nNo sequence is known to fill the column, so none is fenced.");
    }
    note
}

/// The defaults as they were, also of tables that inherit.
fn default_undo(source: &Source) -> String {
    let restore = |table, default| set_default("TABLE", table, &source.column.name, default);
    let own = restore(&source.column.table, source.default.as_deref());
    let children =
        source.children.iter().map(|(table, default)| restore(table, default.as_deref()));
    std::iter::once(own).chain(children).collect::<Vec<_>>().join("; ")
}

/// The identity as it was. Its sequence goes on behind what it has given out by then.
fn identity_undo(
    source: &Source,
    identity: Identity,
    sequence: &Sequence,
    boundary: &Boundary,
) -> String {
    let catalog::Column { table, name, .. } = &source.column;
    let sequence_name = literal(&sequence.name);
    let generated = match identity {
        Identity::Always => "ALWAYS",
        Identity::ByDefault => "BY DEFAULT",
    };
    let options = sequence.identity_options();
    let (furthest, further) = sequence.furthest();
    let last = sequence.last.map_or(String::new(), |last| format!(", {last}"));
    let (min, max) = (sequence.min, sequence.max.min(boundary.first - 1));
    let identity = format!(
        "ALTER TABLE {table} ALTER COLUMN {name} DROP DEFAULT, ALTER COLUMN {name} ADD GENERATED {generated} AS IDENTITY ({options})"
    );
    let position = format!(
        "SELECT pg_catalog.setval({sequence_name}::regclass, {further}({furthest}({name}){last})) FROM {table} WHERE {name} BETWEEN {min} AND {max} HAVING {further}({furthest}({name}){last}) IS NOT NULL"
    );
    let comment = sequence.comment.as_ref().map(|_| sequence.restore_comment());
    [Some(identity), Some(position), comment, sequence.privileges.clone()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
}

/// Whether a sequence stays behind without a use.
pub fn is_left(sequence: &Sequence) -> bool {
    !sequence.is_identity && sequence.other_columns.is_none() && !sequence.is_fenced()
}

/// A sequence that nothing should call any more.
fn fence(source: &Source, sequence: &Sequence, boundary: &Boundary) -> [Step; 2] {
    let mut note = "Clients that still use the old sequence get an error instead of a small number:\nnextval() fails (SQLSTATE 2200H), and so does setval() with another number (22003).".to_owned();
    if let Some(named_by) = &sequence.named_by {
        note.push_str(&format!("\nThese refer to it: {named_by}."));
    }
    let comment = format!(
        "fenced; values of {}.{} from {} on are snowflakes ({})",
        source.column.table, source.column.name, boundary.first, boundary.at
    );
    [
        Step {
            statement: sequence.fence(),
            lock_mode: Some(SHARE_ROW_EXCLUSIVE),
            in_transaction: true,
            undo: Some(sequence.unfence()),
            note,
        },
        Step {
            statement: format!("COMMENT ON SEQUENCE {} IS {}", sequence.name, literal(&comment)),
            lock_mode: Some(SHARE_UPDATE_EXCLUSIVE),
            in_transaction: true,
            undo: Some(sequence.restore_comment()),
            note:
                "Records the first snowflake. Smaller values are not snowflakes and have no time."
                    .to_owned(),
        },
    ]
}

/// Where no sequence is left that could tell, the column does.
fn record(source: &Source, boundary: &Boundary) -> Option<Step> {
    if source.sequences.iter().any(is_left) {
        return None;
    }
    let catalog::Column { table, name, .. } = &source.column;
    let old = source.comment.as_deref();
    let comment = format!(
        "{}values from {} on are snowflakes ({})",
        old.map_or(String::new(), |old| format!("{old}; ")),
        boundary.first,
        boundary.at
    );
    Some(Step {
        statement: format!("COMMENT ON COLUMN {table}.{name} IS {}", literal(&comment)),
        lock_mode: Some(SHARE_UPDATE_EXCLUSIVE),
        in_transaction: true,
        undo: Some(format!("COMMENT ON COLUMN {table}.{name} IS {}", old.map_or("NULL".to_owned(), literal))),
        note: "Records the first snowflake. Smaller values are not snowflakes and have no time.\nIf your migrations compare comments, omit this and record the number elsewhere.".to_owned(),
    })
}

/// A look at the result.
fn check(source: &Source) -> Step {
    let catalog::Column { arguments, generator_schema, .. } = &source.column;
    Step {
        // With all arguments, and their types, so that PostgreSQL prefers no other function of the same name.
        statement: format!(
            "SELECT * FROM {generator_schema}.id_gen_check({arguments}, NULL::bigint)"
        ),
        lock_mode: Some(ACCESS_SHARE),
        in_transaction: true,
        undo: None,
        note: "The newest ID must be below the next one of this server.".to_owned(),
    }
}
