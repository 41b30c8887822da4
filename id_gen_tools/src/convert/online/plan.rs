//! The plan of a job: what a client types, in order.

use id_gen_base::error::counted;

use crate::convert::online::job::Job;
use crate::convert::online::script::{Phase, Statement};
use crate::convert::step::Step;
use crate::convert::texts;

impl Job {
    /// The plan of it: what a client types, in order.
    pub fn steps(&self, start: String) -> Vec<Step> {
        let arguments = &self.arguments;
        let call = |statement: String, lock_mode, note: String| Step {
            statement,
            lock_mode,
            in_transaction: true,
            undo: None,
            note,
        };
        let run = |note: &str| Step {
            in_transaction: false,
            ..call(
                format!("CALL id_gen_convert.run({arguments})"),
                Some("SHARE ROW EXCLUSIVE"),
                note.to_owned(),
            )
        };
        let index = |statement: &Statement, note: &str| Step {
            statement: statement.text.clone(),
            lock_mode: Some("SHARE UPDATE EXCLUSIVE"),
            in_transaction: false,
            undo: None,
            note: note.to_owned(),
        };
        let mut steps = vec![Step {
            undo: Some(format!("CALL id_gen_convert.undo({arguments})")),
            ..call(
                start,
                Some("ACCESS EXCLUSIVE"),
                "Creates the schema id_gen_convert for the job and adds a column at the end of each\ntable, so SELECT * shows one more. Waits for locks 400 ms at a time.\nTo see all statements of the job without keeping it: BEGIN; run this statement;\nSELECT phase, statement FROM id_gen_convert.statement; ROLLBACK;".to_owned(),
            )
        }];
        steps.push(call(
            texts::pin_path(),
            None,
            "Until the end of the plan, so that other roles cannot overload what indexes use.\nRun the statements in one session.".to_owned(),
        ));
        steps.extend(self.script.of(Phase::FirstIndex).map(|statement| {
            index(
                statement,
                "Makes the new values unique, and is used to find those already assigned.",
            )
        }));
        steps.push(run(&format!(
            "Adds triggers that set the new column in new rows, fills old rows in batches with\na commit each, and validates the new columns ({}).\nAfter a crash or Ctrl-C, run what this returns:\nSELECT statement FROM id_gen_convert.todo({arguments})",
            self.statements(&[Phase::Check])
        )));
        steps.extend(self.script.of(Phase::Index).map(|statement| {
            index(statement, "If it names the new column: the index that replaces that of the old one. If it names\nthe old column: the index of the primary key after an undo. Waits for transactions that began earlier.")
        }));
        const REST: [Phase; 2] = [Phase::Attach, Phase::Reference];
        let has_rest = REST.iter().any(|&phase| self.script.of(phase).next().is_some());
        steps.push(run(&if has_rest {
            format!(
                "Attaches indexes of partitions and adds foreign keys, with a commit each\n({}).",
                self.statements(&REST)
            )
        } else {
            "Checks that all indexes exist.".to_owned()
        }));
        steps.push(call(
            format!("SELECT * FROM id_gen_convert.verify({arguments})"),
            Some("ACCESS SHARE"),
            "Reads all rows and checks their new values, the indexes, constraints and triggers.\nThe switch requires it.".to_owned(),
        ));
        let users = if self.users.is_empty() {
            String::new()
        } else {
            format!("\nThese may set the column or use its sequence: {}.", self.users.join(", "))
        };
        steps.push(Step {
            undo: Some(format!("CALL id_gen_convert.undo({arguments})")),
            ..call(
                format!("SELECT id_gen_convert.switch({arguments})"),
                Some("ACCESS EXCLUSIVE"),
                format!(
                    "Switches to the new column in one transaction ({}).\nNew rows then get IDs of id_gen. Old values are kept for an undo until you run:\nSELECT id_gen_convert.finish({arguments}){users}",
                    self.statements(&[Phase::Switch])
                ),
            )
        });
        steps.push(call(
            "RESET search_path".to_owned(),
            None,
            "Sets the default of this session again.".to_owned(),
        ));
        steps
    }

    /// How many statements phases have, for a note.
    fn statements(&self, phases: &[Phase]) -> String {
        let count: usize = phases.iter().map(|&phase| self.script.of(phase).count()).sum();
        counted(count as u64, "statement")
    }
}
