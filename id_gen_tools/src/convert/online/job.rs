//! What a job consists of, worked out from the catalogs: the statements of each phase, and the tables to fill.

use id_gen_base::pg::text::{in_error, literal};
use id_gen_core::planted::Fault;

use crate::convert::column::{Kind, Source};
use crate::convert::default_only;
use crate::convert::goal::{Goal, Node};
use crate::convert::online::columns::{self, Member};
use crate::convert::online::fill::Fill;
use crate::convert::online::names::Names;
use crate::convert::online::script::{Phase, Script, rank};
use crate::convert::online::values::Values;
use crate::convert::online::{attributes, constraints, dependents, indexes, obstacles, values};
use crate::convert::place::Place;
use crate::convert::refusal::Refusal;
use crate::convert::step::Target;
use crate::error::Error;
use crate::server::Server;

/// What a job consists of.
pub struct Job {
    /// The columns that are moved over together.
    pub members: Vec<Member>,
    /// The statements.
    pub script: Script,
    /// The tables whose old rows get their values.
    pub fills: Vec<Fill>,
    /// Views that are made again, other tables whose policies are, and sequences that continue beyond all values.
    pub others: Vec<String>,
    /// The triggers that keep rows in step: the table, the name, and whether it is for after the switch.
    pub triggers: Vec<(String, String, bool)>,
    /// Both names as the arguments of a function.
    pub arguments: String,
    /// What it gives them.
    pub target: Target,
    /// Whose snowflakes old rows get, if they get new ones.
    pub node: Option<Node>,
    /// What may set the column, and what refers to its sequences.
    pub users: Vec<String>,
}

impl Job {
    /// Works it out from the catalogs.
    ///
    /// # Errors
    /// If anything is in the way.
    pub fn new(source: &Source, place: Place, goal: &Goal) -> Result<Job, Error> {
        match (goal.target, &goal.created_at) {
            (Target::Snowflake, None) => default_only::refuse_overlap(source)?,
            (Target::Snowflake, Some(_)) => Server::ask()?.check_ready()?,
            (Target::Uuidv7, _) => {}
        }
        let names = Names::new()?;
        let members = columns::of(place, &names)?;
        let column = in_error(&format!("{}.{}", source.column.table, source.column.name));
        obstacles::refuse(&members, source, goal)?;
        let has_old_values = values::has_old_values(&members[0], source);
        let mut job = Job {
            members,
            script: Script::default(),
            fills: Vec::new(),
            others: Vec::new(),
            triggers: Vec::new(),
            arguments: source.column.arguments.clone(),
            target: goal.target,
            node: goal.node,
            users: (source.setters.iter())
                .chain(source.sequences.iter().filter_map(|sequence| sequence.named_by.as_ref()))
                .cloned()
                .collect(),
        };
        job.write_columns(source, goal)?;
        job.write_bare_partitions(source);
        let type_name = goal.target.type_name();
        indexes::write(&job.members, &names, type_name, goal.node.is_some(), &mut job.script)?;
        if goal.node.is_some() && job.script.of(Phase::FirstIndex).next().is_none() {
            let found = vec![format!("{column} has no unique index")];
            return Err(Refusal::InTheWay { column, found, widen: None }.into());
        }
        constraints::write(&job.members, &names, has_old_values, &mut job.script)?;
        job.others = dependents::write(&job.members, &mut job.script)?;
        if source.is_from_sequence() {
            let root = &job.members[0];
            for sequence in source.sequences.iter().filter(|sequence| !sequence.is_fenced()) {
                let arguments =
                    [&sequence.name, &root.table, &root.old_name].map(|text| literal(text));
                let catch_up = format!("SELECT id_gen_convert.catch_up({})", arguments.join(", "));
                job.script.add(Phase::Switch, rank::DEFAULTS, catch_up);
                job.others.push(sequence.name.clone());
            }
        }
        for sequence in source.sequences.iter().filter(|sequence| default_only::is_left(sequence)) {
            for phase in [Phase::Finish, Phase::Keep] {
                job.script.add(phase, rank::FENCES, sequence.fence_unless_used());
            }
        }
        Ok(job)
    }

    /// The columns: added, filled, swapped, taken away.
    fn write_columns(&mut self, source: &Source, goal: &Goal) -> Result<(), Error> {
        for text in attributes::copied(&self.members)? {
            self.script.add(Phase::Prepare, 2, text);
        }
        let members = std::mem::take(&mut self.members);
        for (index, member) in members.iter().enumerate() {
            let values = Values::of(&members, index, source, goal);
            self.write_column(member, &values, source, goal);
        }
        // Columns of a table that get their values in the same way get them together.
        let mut fills: Vec<Fill> = Vec::new();
        for fill in std::mem::take(&mut self.fills) {
            match fills.iter_mut().find(|other| other.goes_with(&fill)) {
                Some(other) => other.join(fill),
                None => fills.push(fill),
            }
        }
        self.fills = fills;
        self.members = members;
        Ok(())
    }

    /// One of them, with what keeps it in step.
    fn write_column(&mut self, member: &Member, values: &Values, source: &Source, goal: &Goal) {
        self.write_making(member, values, goal);
        self.write_swap(member, values);
        self.write_end(member, values, source);
        let Member { table, .. } = member;
        let (name, new, old) = (member.typed(), member.typed_new(), member.typed_old());
        let create = values.forward.create(table);
        let synchronize = if values.is_root {
            for text in create {
                self.script.add(Phase::Prepare, 3, text);
            }
            Vec::new()
        } else {
            create
        };
        for (trigger, is_backward) in std::iter::once((&values.forward, false))
            .chain(values.backward.iter().map(|trigger| (trigger, true)))
        {
            let triggers = trigger.triggers().map(|(name, ..)| (table.clone(), name, is_backward));
            self.triggers.extend(triggers);
        }
        self.fills.push(Fill {
            table: table.clone(),
            synchronize,
            pending: format!("t.{new} IS NULL AND t.{name} IS NOT NULL"),
            assignment: values.assignment.clone().map(|value| format!("{new} = {value}")),
            allotted: values.allotted_at.clone().map(|at| (member.new_name.clone(), at)),
            mismatch: values.mismatch.clone(),
            unreturned: format!("t.{old} IS NULL AND t.{name} IS NOT NULL"),
            diverged: values.diverged.clone(),
            restoring: values.restored.clone().map(|value| format!("{old} = {value}")),
        });
    }

    /// The new column, and what no row may lack, or have otherwise, while both columns are there.
    fn write_making(&mut self, member: &Member, values: &Values, goal: &Goal) {
        let Member { table, not_null, .. } = member;
        let (name, new, check) = (member.typed(), member.typed_new(), check_of(member));
        let script = &mut self.script;
        let type_name = goal.target.type_name();
        script.add(Phase::Prepare, 1, format!("ALTER TABLE {table} ADD COLUMN {new} {type_name}"));
        let rule = match (not_null, goal.created_at.is_some()) {
            (true, false) => format!("{new} IS NOT NULL AND {new} = {name}"),
            (false, false) => format!("{new} IS NOT DISTINCT FROM {name}"),
            (true, true) => format!("{new} IS NOT NULL"),
            (false, true) => format!("({new} IS NULL) = ({name} IS NULL)"),
        };
        let add = format!("ALTER TABLE {table} ADD CONSTRAINT {check} CHECK ({rule}) NOT VALID");
        let lock = Some((vec![table.clone()], "ACCESS EXCLUSIVE"));
        script.add_made(Phase::Check, table, &check, lock, add);
        script.add(Phase::Check, 1, format!("ALTER TABLE {table} VALIDATE CONSTRAINT {check}"));
        // The planner knows as much of it after the switch as it knew of the old one.
        let lock = (vec![table.clone()], "SHARE UPDATE EXCLUSIVE");
        script.add_locked(Phase::Check, 2, lock, format!("ANALYZE {table} ({new})"));
        script.add(
            Phase::Switch,
            rank::RULES,
            format!("ALTER TABLE {table} DROP CONSTRAINT {check}"),
        );
        // In a restored dump, a new column that was renamed is not known, and would stay with its check.
        let drop = format!("ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {check}");
        script.add(Phase::Clean, 1, drop);
        // Those that refer to others go first.
        let last = if values.is_root { 3 } else { 2 };
        script.add(Phase::Clean, 1, values.forward.drop());
        script.add(Phase::Clean, last, format!("ALTER TABLE {table} DROP COLUMN IF EXISTS {new}"));
    }

    /// The columns swap their names, and what they have beside values.
    fn write_swap(&mut self, member: &Member, values: &Values) {
        let Member { table, not_null, .. } = member;
        let (name, new, old) = (member.typed(), member.typed_new(), member.typed_old());
        let script = &mut self.script;
        let alter =
            |column: &str, what: &str| format!("ALTER TABLE {table} ALTER COLUMN {column} {what}");
        script.add(Phase::Switch, rank::TRIGGERS_GO, values.forward.drop());
        for (phase, from, to) in [
            (Phase::Trial, &name, &old),
            (Phase::Trial, &new, &name),
            (Phase::Switch, &name, &old),
            (Phase::Switch, &new, &name),
            (Phase::Unswitch, &name, &new),
            (Phase::Unswitch, &old, &name),
        ] {
            let rename = format!("ALTER TABLE {table} RENAME COLUMN {from} TO {to}");
            script.add(phase, rank::COLUMNS, rename);
        }
        if *not_null {
            // The check of both columns shows that no row has to be looked at, so it goes after this.
            script.add(Phase::Switch, rank::COLUMNS, alter(&name, "SET NOT NULL"));
            // It is still there for a while, and nobody gives it a value. By then it is no replica identity any more.
            script.add(Phase::Unswitch, rank::DEFAULTS, drop_not_null(table, &member.new_name));
        }
        // Without a default there is nothing that old values of new rows could come from.
        if *not_null && !values.has_old_values && !Fault::OldNotNullKept.is_planted() {
            // After the replica identity has moved to the other column.
            script.add(Phase::Switch, rank::DEFAULTS, drop_not_null(table, &member.old_name));
            script.add(Phase::Unswitch, rank::RULES, alter(&name, "SET NOT NULL"));
        }
        if let Some(default) = &values.default {
            script.add(
                Phase::Switch,
                rank::DEFAULTS,
                alter(&name, &format!("SET DEFAULT {default}")),
            );
            script.add(Phase::Unswitch, rank::DEFAULTS, alter(&new, "DROP DEFAULT"));
            if !values.is_root {
                // An old value that comes with a row is refused, unless it belongs to the new one.
                script.add(Phase::Switch, rank::DEFAULTS, alter(&old, "DROP DEFAULT"));
                let back = alter(&name, &format!("SET DEFAULT {default}"));
                script.add(Phase::Unswitch, rank::DEFAULTS, back);
            }
        }
        if let Some(backward) = &values.backward {
            for text in backward.create(table) {
                script.add(Phase::Switch, rank::TRIGGERS, text);
            }
            for phase in [Phase::Unswitch, Phase::Finish, Phase::Keep] {
                script.add(phase, rank::TRIGGERS_GO, backward.drop());
            }
        }
    }

    /// Rows that are inserted into a partition without a default of its own get an old value, too.
    fn write_bare_partitions(&mut self, source: &Source) {
        let (root, script) = (&self.members[0], &mut self.script);
        let identity = source.sequences.iter().find(|sequence| sequence.is_identity);
        let of_identity =
            identity.map(|sequence| format!("nextval({}::regclass)", literal(&sequence.name)));
        let Some(default) = root.default.clone().or(of_identity) else { return };
        for part in &source.bare_children {
            let alter = |column: String, what: &str| {
                format!("ALTER TABLE {part} ALTER COLUMN {column} {what}")
            };
            let give = alter(root.typed_old(), &format!("SET DEFAULT {default}"));
            script.add_about(Phase::Switch, rank::DEFAULTS, part, give);
            let back = alter(root.typed(), "DROP DEFAULT");
            script.add_about(Phase::Unswitch, rank::DEFAULTS, part, back);
            // Before the sequence of an identity goes.
            script.add_about(Phase::Keep, 2, part, alter(root.typed_old(), "DROP DEFAULT"));
        }
    }

    /// What becomes of the old column when the job is finished.
    fn write_end(&mut self, member: &Member, values: &Values, source: &Source) {
        let Member { table, not_null, .. } = member;
        let old = member.typed_old();
        let mut add =
            |phase, what: String| self.script.add(phase, 3, format!("ALTER TABLE {table} {what}"));
        add(Phase::Finish, format!("DROP COLUMN IF EXISTS {old}"));
        let mut left = Vec::new();
        if values.is_root && source.identity.is_some() {
            left.push("DROP IDENTITY");
        }
        left.push("DROP DEFAULT");
        for what in left {
            add(Phase::Keep, format!("ALTER COLUMN {old} {what}"));
        }
        if *not_null && values.has_old_values {
            self.script.add(Phase::Keep, 3, drop_not_null(table, &member.old_name));
        }
    }
}

/// The constraint that holds both columns together.
fn check_of(member: &Member) -> String {
    format!("id_gen_convert_{}", member.number)
}

/// The statement that drops NOT NULL of a column of a table and of its partitions.
fn drop_not_null(table: &str, column: &str) -> String {
    format!("SELECT id_gen_convert.drop_not_null({}, {})", literal(table), literal(column))
}

/// Whether a column's values have to change, or its type.
pub fn is_needed(source: &Source, goal: &Goal) -> bool {
    goal.created_at.is_some() || source.kind == Kind::Narrow || source.has_narrow_references
}
