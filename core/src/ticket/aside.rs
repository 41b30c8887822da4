//! The file of numbers that a clean stop puts aside: those that were taken in advance of a sequence and not handed out, for
//! the next start, so that a restart leaves no gap.
//!
//! It is written when nobody can take them any more, and removed before the first of them is handed out. As every
//! [`kept_file`] it is about one directory: a copy in another one does not hand out the same numbers.

use std::fmt::Write;

use crate::kept_file::{self, Damage, Flaw, Kind, Place};
use crate::ticket::given_back::{GivenBack, ROOM};
use crate::ticket::steps::{Run, Steps};

/// The file, in the data directory.
pub const TICKET_FILE: &str = "id_gen/pgsql_tmp_tickets";

const KIND: Kind = Kind { name: "id_gen tickets", version: 1 };

/// How many numbers say which sequence it is.
pub const KEY_WORDS: usize = 5;

/// What is put aside of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Aside {
    /// Which sequence.
    pub key: [u32; KEY_WORDS],
    /// Its numbers.
    pub steps: Steps,
    /// The last number that was taken in advance.
    pub last: i64,
    /// Where the log says so: the sequence's page has this for as long as nobody has changed it.
    pub lsn: u64,
    /// Those that nobody has.
    pub numbers: GivenBack,
}

/// The text of the file.
pub fn encode(place: &Place, asides: &[Aside]) -> String {
    kept_file::encode(KIND, place, asides.iter().map(line))
}

fn line(aside: &Aside) -> String {
    let Aside { key, steps: Steps { step, min, max }, last, lsn, numbers } = aside;
    let mut line = "sequence".to_owned();
    // Writing to a String can't fail.
    for word in key {
        let _ = write!(line, " {word}");
    }
    let _ = write!(line, " {step} {min} {max} {last} {lsn}");
    for Run { first, count } in numbers.runs() {
        let _ = write!(line, " {first} {count}");
    }
    line
}

/// What the bytes of a file say.
///
/// # Errors
/// If that is not to be known.
pub fn decode(bytes: &[u8]) -> Result<(Place, Vec<Aside>), Damage> {
    let (place, lines) = kept_file::decode(KIND, bytes)?;
    let asides = lines.map(aside_of).collect::<Option<_>>().ok_or(Flaw::Line)?;
    Ok((place, asides))
}

fn aside_of(line: &str) -> Option<Aside> {
    let mut words = line.strip_prefix("sequence ")?.split(' ');
    let mut key = [0; KEY_WORDS];
    for word in &mut key {
        *word = words.next()?.parse().ok()?;
    }
    let steps = Steps {
        step: words.next()?.parse().ok().filter(|&step| step > 0)?,
        min: words.next()?.parse().ok()?,
        max: words.next()?.parse().ok()?,
    };
    let last = words.next()?.parse().ok().filter(|&last| last <= steps.max)?;
    let lsn = words.next()?.parse().ok()?;
    // No number comes twice: each run begins after the one before.
    let mut least = steps.min;
    let taken = Steps { max: last, ..steps };
    let mut numbers = GivenBack::EMPTY;
    for _ in 0..ROOM {
        let Some(first) = words.next() else { break };
        let first = first.parse().ok().filter(|&first| first >= least)?;
        let count = words.next()?.parse().ok()?;
        // As many as were taken in advance.
        let run = taken.run(first, count).filter(|run| run.count == count)?;
        least = taken.last_of(run).saturating_add(1);
        numbers.add(&steps, run);
    }
    words.next().is_none().then_some(Aside { key, steps, last, lsn, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: Place = Place { system_identifier: 5, timeline: 3, inode: 2, origin: 1 };

    fn aside(steps: Steps, runs: &[(i64, u32)]) -> Aside {
        let mut numbers = GivenBack::EMPTY;
        for &(first, count) in runs {
            numbers.add(&steps, Run { first, count });
        }
        Aside { key: [1, 2, 3, 4, u32::MAX], steps, last: steps.max, lsn: u64::MAX, numbers }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(step in 1..9i64, counts in prop::collection::vec(1..9u32, 0..20)) {
            let steps = Steps { step, min: -1000, max: 5000 };
            let runs: Vec<_> = (-1000..).step_by(200).zip(counts).collect();
            let asides = [aside(steps, &runs), aside(steps, &[])];
            let (place, found) = decode(encode(&PLACE, &asides).as_bytes()).unwrap();
            prop_assert_eq!(place, PLACE);
            prop_assert_eq!(found.len(), asides.len());
            for (found, aside) in found.iter().zip(&asides) {
                prop_assert_eq!((found.key, found.steps), (aside.key, aside.steps));
                prop_assert_eq!((found.last, found.lsn), (aside.last, aside.lsn));
                prop_assert_eq!(found.numbers.runs(), aside.numbers.runs());
            }
        }
    }

    #[test]
    fn numbers_that_a_sequence_does_not_have_are_refused() {
        let steps = Steps { step: 2, min: 1, max: 100 };
        for runs in ["99 2", "-1 1", "101 1", "5 0", "5 3 9 1", "5 1 5 1", "9 1 5 1"] {
            let text = format!("{} {runs}", line(&aside(steps, &[])));
            assert!(aside_of(&text).is_none(), "{text}");
        }
        let wrong = Steps { step: 0, ..steps };
        assert!(aside_of(&line(&aside(wrong, &[]))).is_none());
        let short = Aside { last: 50, ..aside(steps, &[]) };
        assert!(aside_of(&format!("{} 51 1", line(&short))).is_none());
        assert!(aside_of("sequence 1 2 3 4 5 1 1 9 0 0 1").is_none());
    }
}
