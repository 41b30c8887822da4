//! The plan of a job: what a client types, in order.

use crate::convert::online::job::Job;
use crate::convert::online::script::{Phase, Statement};
use crate::convert::step::Step;

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
                format!(
                    "Makes the schema id_gen_convert for the job, unless there is one, and runs, waiting for locks 400 ms at a time: {}. What the job runs later is in the table id_gen_convert.statement from then on. Columns are added at the end of each table, so SELECT * shows one more.",
                    self.texts(Phase::Prepare)
                ),
            )
        }];
        steps.extend(self.script.of(Phase::FirstIndex).map(|statement| {
            index(statement, "Keeps the new values apart, and lets those that are taken be found.")
        }));
        steps.push(run(&format!(
            "Keeps new rows in step by triggers, gives old rows of these tables their values, in batches with a commit each, and then runs: {}. After a crash or Ctrl-C, run the statement that id_gen_convert.todo({arguments}) returns.",
            self.texts(Phase::Check)
        )));
        steps.extend(self.script.of(Phase::Index).map(|statement| {
            index(statement, "For the new column what the old one has, and for a primary key a way back. It waits for transactions that began before it.")
        }));
        let rest = [Phase::Attach, Phase::Reference].map(|phase| self.texts(phase));
        let rest: Vec<String> = rest.into_iter().filter(|texts| !texts.is_empty()).collect();
        steps.push(run(&if rest.is_empty() {
            "Makes sure that all indexes are there; nothing else is left to be made.".to_owned()
        } else {
            format!("Runs, with a commit each: {}.", rest.join("; "))
        }));
        steps.push(call(
            format!("SELECT * FROM id_gen_convert.verify({arguments})"),
            Some("ACCESS SHARE"),
            "Reads every row: none lacks its value, none has another's, no value is there twice, no writer was missed. Without it there is no switch.".to_owned(),
        ));
        steps.push(Step {
            undo: Some(format!("CALL id_gen_convert.undo({arguments})")),
            ..call(
                format!("SELECT id_gen_convert.switch({arguments})"),
                Some("ACCESS EXCLUSIVE"),
                format!(
                    "Runs in one transaction: {}. From then on new rows have IDs of id_gen, and old values are kept as well until SELECT id_gen_convert.finish({arguments}), which cannot be undone.",
                    self.texts(Phase::Switch)
                ),
            )
        });
        steps
    }

    fn texts(&self, phase: Phase) -> String {
        self.script
            .of(phase)
            .map(|statement| statement.text.as_str())
            .collect::<Vec<_>>()
            .join("; ")
    }
}
