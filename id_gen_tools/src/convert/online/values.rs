//! Where the values of a column come from: those of old rows, of new ones before the switch, and of new ones after it.

use id_gen_core::planted::Fault;

use crate::convert::column::Source;
use crate::convert::goal::Goal;
use crate::convert::online::columns::Member;
use crate::convert::online::trigger::Trigger;
use crate::convert::step::Target;

/// Where the values of a column come from.
pub struct Values {
    /// Whether it is the one that was named.
    pub is_root: bool,
    /// Keeps new rows in step before the switch.
    pub forward: Trigger,
    /// The same after it, for a column that refers to another.
    pub backward: Option<Trigger>,
    /// What an old row gets; `None` if its ID has to be looked for.
    pub assignment: Option<String>,
    /// The time that the ID of an old row carries.
    pub allotted_at: Option<String>,
    /// Which rows have a wrong value.
    pub mismatch: String,
    /// Rows that have another old value than the row that they reference, after the switch.
    pub diverged: String,
    /// The old value of the row that they reference.
    pub restored: Option<String>,
    /// What new rows get after the switch, if they name no value.
    pub default: Option<String>,
    /// Whether new rows get an old value after the switch.
    pub has_old_values: bool,
}

impl Values {
    /// Of one of the columns.
    pub fn of(members: &[Member], index: usize, source: &Source, goal: &Goal) -> Values {
        let (member, root) = (&members[index], &members[0]);
        let schema = &source.column.generator_schema;
        let is_root = index == 0;
        let (name, new) = (member.typed(), member.typed_new());
        let generator = format!("{schema}.{}", goal.target.generator());
        let has_old_values = has_old_values(root, source);
        // The value that belongs to that of the column which this one refers to.
        let of_root = |of: &str, by: &str, at: &str| {
            format!("(SELECT p.{of} FROM {} p WHERE p.{by} = {at})", root.table)
        };
        let lookup = of_root(&root.typed_new(), &root.typed(), &format!("t.{name}"));
        let diverged = if is_root {
            "false".to_owned()
        } else {
            let (table, by) = (&root.table, root.typed());
            let (of_root, own) = (root.typed_old(), member.typed_old());
            // A row whose key refers to nothing keeps its old value.
            format!(
                "EXISTS (SELECT FROM {table} p WHERE p.{by} = t.{name} AND p.{of_root} IS DISTINCT FROM t.{own})"
            )
        };
        // Of several columns of a row, one may have diverged and another one reference nothing.
        let restored = (!is_root).then(|| {
            let of_root = of_root(&root.typed_old(), &root.typed(), &format!("t.{name}"));
            format!("CASE WHEN {diverged} THEN {of_root} ELSE t.{} END", member.typed_old())
        });
        let forward = |body, insert, update| Trigger {
            member: member.key(),
            number: member.number,
            direction: "forward",
            order: if is_root { 1 } else { 2 },
            declarations: String::new(),
            copies: goal.created_at.is_none(),
            body,
            reads: false,
            insert,
            update,
        };
        let (forward, assignment, mismatch) = match (&goal.created_at, is_root) {
            (None, _) => {
                let differs = format!("NEW.{new} IS DISTINCT FROM NEW.{name}");
                let update = (!Fault::UpdatesNotFollowed.is_planted()).then(|| differs.clone());
                (
                    forward(format!("NEW.{new} := NEW.{name};"), differs, update),
                    Some(format!("t.{name}")),
                    format!("t.{new} IS DISTINCT FROM t.{name}"),
                )
            }
            (Some(at), true) => (
                forward(format!("NEW.{new} := {generator};"), format!("NEW.{new} IS NULL"), None),
                (goal.target == Target::Uuidv7).then(|| uuid_at(schema, at)),
                format!("t.{new} IS NULL"),
            ),
            (Some(_), false) => (
                Trigger::that_follows(member, "forward", &new, &root.typed_new(), root),
                Some(lookup.clone()),
                format!("t.{new} IS DISTINCT FROM {lookup}"),
            ),
        };
        let backward = (!is_root).then(|| {
            let old = member.typed_old();
            Trigger::that_follows(member, "backward", &old, &root.typed_old(), root)
                .that_refuses_others(member, &old)
        });
        Values {
            is_root,
            forward,
            backward,
            allotted_at: goal.created_at.clone().filter(|_| is_root),
            assignment,
            mismatch,
            diverged,
            restored,
            default: if is_root { Some(generator) } else { member.default.clone() },
            has_old_values,
        }
    }
}

/// Whether rows that come after the switch get an old value: only a default or an identity of the key can give it.
pub fn has_old_values(root: &Member, source: &Source) -> bool {
    root.default.is_some() || source.identity.is_some()
}

/// A UUID version 7 of a time: its milliseconds, and the rest of a new one.
fn uuid_at(schema: &str, at: &str) -> String {
    format!(
        "encode(substr(uuid_send({schema}.uuidv7_min(greatest(least(coalesce({at}, transaction_timestamp()), transaction_timestamp()), 'epoch'))), 1, 6) || substr(uuid_send({schema}.uuidv7()), 7), 'hex')::uuid"
    )
}
