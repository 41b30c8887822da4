//! A range that sessions share, under many orders of memory accesses that the language allows, as loom finds them.
//!
//! Sessions take numbers, while the holder of the lock closes one range and opens another of another step or for another
//! owner. Whatever they see, no number is held by two at a time, and each is of its range. Each thread may be interrupted a
//! few times, anywhere; stale reads are not limited.

use id_gen_core::ticket::{Current, Run};
use loom::sync::Arc;
use loom::thread;

const OWNER: u64 = 7;
const FIRST: Run = Run { first: 1, count: 3 };
const SECOND: Run = Run { first: 1_000, count: 3 };
const SECOND_STEP: i64 = 10;

fn numbers(run: Run, step: i64) -> impl Iterator<Item = i64> {
    (0..i64::from(run.count)).map(move |place| run.first + place * step)
}

fn check(sessions: usize, times: usize, interruptions: usize, next_owner: u64) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(interruptions);
    model.check(move || {
        let current = Arc::new(Current::default());
        current.open(OWNER, FIRST, 1);
        let sessions: Vec<_> = (0..sessions)
            .map(|_| {
                let current = Arc::clone(&current);
                thread::spawn(move || {
                    (0..times).filter_map(|_| current.take(OWNER)).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut all: Vec<_> = current.close().into_iter().flat_map(|run| numbers(run, 1)).collect();
        current.open(next_owner, SECOND, SECOND_STEP);
        for session in sessions {
            all.extend(session.join().unwrap());
        }
        all.extend(current.close().into_iter().flat_map(|run| numbers(run, SECOND_STEP)));
        all.sort_unstable();
        let expected: Vec<_> = numbers(FIRST, 1).chain(numbers(SECOND, SECOND_STEP)).collect();
        assert_eq!(all, expected, "a number came twice, or is lost");
    });
}

#[test]
fn one_session_takes_while_the_range_changes() {
    check(1, 2, 3, OWNER);
}

#[test]
fn two_sessions_take_while_the_range_changes() {
    check(2, 2, 1, OWNER);
}

#[test]
fn a_range_of_another_owner_is_left_alone() {
    check(2, 1, 1, OWNER + 1);
}
