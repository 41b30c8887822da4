//! The statements of a job by the phase in which they run.

use std::collections::BTreeMap;

/// When a statement runs. The schema of the jobs knows them by these names (`sql/convert_job.sql`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// When the job starts, under a lock on all tables.
    Prepare,
    /// After that, and taken back: what the switch will make again.
    Trial,
    /// After that, and taken back: the new indexes, which run what they name.
    TrialIndex,
    /// Before old rows get their values: by a client.
    FirstIndex,
    /// When all rows have their values.
    Check,
    /// After that: by a client.
    Index,
    /// When the indexes are there.
    Attach,
    /// When they are the tables'.
    Reference,
    /// In the switch, under a lock on all tables.
    Switch,
    /// When the switch is taken back, under a lock on all tables.
    Unswitch,
    /// After that.
    Revalidate,
    /// When the job is undone, in the end.
    Clean,
    /// When the job is finished.
    Finish,
    /// When it is finished, and the old values are kept.
    Keep,
}

impl Phase {
    /// Its name in the schema of the jobs.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Prepare => "prepare",
            Phase::Trial => "trial",
            Phase::TrialIndex => "trial_index",
            Phase::FirstIndex => "first_index",
            Phase::Check => "check",
            Phase::Index => "index",
            Phase::Attach => "attach",
            Phase::Reference => "reference",
            Phase::Switch => "switch",
            Phase::Unswitch => "unswitch",
            Phase::Revalidate => "revalidate",
            Phase::Clean => "clean",
            Phase::Finish => "finish",
            Phase::Keep => "keep",
        }
    }
}

/// The order of what is done in [`Phase::Switch`], and of what takes it back in [`Phase::Unswitch`]: what depends on other
/// things goes before them and comes after them.
pub mod rank {
    /// Views, policies, triggers and statistics go.
    pub const DEPENDENTS_GO: u32 = 1;
    /// Triggers that keep rows in step go.
    pub const TRIGGERS_GO: u32 = 2;
    /// Foreign keys go.
    pub const REFERENCES_GO: u32 = 3;
    /// Indexes and constraints leave their names to others.
    pub const NAMES_GO: u32 = 4;
    /// Columns swap their names.
    pub const COLUMNS: u32 = 5;
    /// What holds both columns together, or has to be filled.
    pub const RULES: u32 = 6;
    /// Indexes get the names, and keys their indexes.
    pub const INDEXES: u32 = 7;
    /// Constraints get the names; keys of partitioned tables.
    pub const CONSTRAINTS: u32 = 8;
    /// Comments, what an index is for beside finding rows, and foreign keys of partitioned tables.
    pub const DESCRIPTIONS: u32 = 9;
    /// Defaults.
    pub const DEFAULTS: u32 = 10;
    /// Triggers that keep rows in step come.
    pub const TRIGGERS: u32 = 11;
    /// Views, policies, triggers and statistics come.
    pub const DEPENDENTS: u32 = 12;
    /// In [`Phase::Finish`] and [`Phase::Keep`]: sequences that are left behind, when no default uses them any more.
    pub const FENCES: u32 = 13;
}

/// The tables that are locked, and how.
pub type Lock = (Vec<String>, &'static str);

/// A statement of a job.
pub struct Statement {
    /// What runs.
    pub text: String,
    /// Which tables are locked before it runs, and how.
    pub lock: Option<Lock>,
    /// The table without which it is left out.
    pub table: Option<String>,
    /// The index or constraint that it makes of the table; in [`Phase::Unswitch`], the one that it needs.
    pub made: Option<String>,
    /// The object that it makes again from its definition.
    pub remade: Option<Remade>,
}

impl Statement {
    const fn of(text: String) -> Statement {
        Statement { text, lock: None, table: None, made: None, remade: None }
    }
}

/// An object that is made again from its definition.
#[derive(Clone)]
pub struct Remade {
    /// Its type and identity in PostgreSQL.
    pub object: String,
    /// The statement that drops it.
    pub remedy: String,
}

/// All of them, in their order.
#[derive(Default)]
pub struct Script(BTreeMap<(Phase, u32), Vec<Statement>>);

impl Script {
    /// Adds a statement to a phase, behind those of a lower rank and those that were added before.
    pub fn add(&mut self, phase: Phase, rank: u32, text: String) {
        self.push(phase, rank, Statement::of(text));
    }

    /// The same, of a statement that makes an object again.
    pub fn add_remade(&mut self, phase: Phase, rank: u32, remade: &Remade, text: String) {
        let remade = Some(remade.clone());
        self.push(phase, rank, Statement { remade, ..Statement::of(text) });
    }

    /// The same, of a statement before which tables are locked.
    pub fn add_locked(&mut self, phase: Phase, rank: u32, lock: Lock, text: String) {
        self.push(phase, rank, Statement { lock: Some(lock), ..Statement::of(text) });
    }

    /// The same, of a statement that makes an index or constraint of a table.
    pub fn add_made(
        &mut self,
        phase: Phase,
        table: &str,
        name: &str,
        lock: Option<Lock>,
        text: String,
    ) {
        let (table, made) = (Some(table.to_owned()), Some(name.to_owned()));
        self.push(phase, 1, Statement { lock, table, made, ..Statement::of(text) });
    }

    /// Adds the statement of the check that takes the place of another one.
    pub fn add_twin(
        &mut self,
        remade: &Remade,
        table: &str,
        name: &str,
        lock: Option<Lock>,
        text: String,
    ) {
        let (table, made) = (Some(table.to_owned()), Some(name.to_owned()));
        let remade = Some(remade.clone());
        self.push(Phase::Check, 1, Statement { text, lock, table, made, remade });
    }

    /// Adds a statement about a table that may be a partition. After the switch, others may have the names of dropped ones.
    pub fn add_about(&mut self, phase: Phase, rank: u32, table: &str, text: String) {
        let table = Some(table.to_owned());
        self.push(phase, rank, Statement { table, ..Statement::of(text) });
    }

    /// Adds a statement of the way back, with the constraint or index of a table without which it fails.
    pub fn add_back(&mut self, rank: u32, table: &str, needed: &str, text: String) {
        let (table, made) = (Some(table.to_owned()), Some(needed.to_owned()));
        self.push(Phase::Unswitch, rank, Statement { table, made, ..Statement::of(text) });
    }

    /// A way back, or to the end, has to be open whatever has been dropped meanwhile.
    fn push(&mut self, phase: Phase, rank: u32, mut statement: Statement) {
        let leads_out =
            [Phase::Unswitch, Phase::Revalidate, Phase::Clean, Phase::Finish, Phase::Keep];
        if leads_out.contains(&phase) {
            for kind in [
                "ALTER TABLE ",
                "ALTER INDEX ",
                "DROP VIEW ",
                "DROP POLICY ",
                "DROP TRIGGER ",
                "DROP STATISTICS ",
            ] {
                if let Some(rest) = statement.text.strip_prefix(kind) {
                    statement.text = format!("{kind}IF EXISTS {rest}");
                }
            }
        }
        self.0.entry((phase, rank)).or_default().push(statement);
    }

    /// The statements of a phase.
    pub fn of(&self, phase: Phase) -> impl Iterator<Item = &Statement> {
        self.0
            .iter()
            .filter(move |((other, _), _)| *other == phase)
            .flat_map(|(_, statements)| statements)
    }

    /// All of them, with the phase of each and its place there.
    pub fn all(&self) -> impl Iterator<Item = (Phase, usize, &Statement)> {
        let mut phases: Vec<Phase> = self.0.keys().map(|&(phase, _)| phase).collect();
        phases.dedup();
        phases.into_iter().flat_map(move |phase| {
            self.of(phase).enumerate().map(move |(index, statement)| (phase, index + 1, statement))
        })
    }
}
