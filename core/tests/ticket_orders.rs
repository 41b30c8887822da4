//! A range that sessions share, under many orders of memory accesses that the language allows, as loom finds them.
//!
//! Sessions take numbers, and give some back, while the holder of the lock closes one range and opens another of another
//! step or for another owner. Whatever they see, no number is held by two at a time, and each is of its range. Each thread
//! may be interrupted a few times, anywhere; stale reads are not limited.

use id_gen_core::ticket::{Current, Run};
use loom::sync::{Arc, Mutex};
use loom::thread;

const OWNER: u64 = 7;
const FIRST: Run = Run { first: 1, count: 4 };
const SECOND: Run = Run { first: 1_000, count: 4 };
const SECOND_STEP: i64 = 10;

fn numbers(run: Run, step: i64) -> impl Iterator<Item = i64> {
    (0..i64::from(run.count)).map(move |place| run.first + place * step)
}

/// Takes two numbers at a time and hands out the first; gives the other back, under the lock.
fn session(current: &Current, lock: &Mutex<()>, times: usize) -> Vec<i64> {
    let mut handed_out = Vec::new();
    for _ in 0..times {
        let Some(taken) = current.take(OWNER, 2) else { continue };
        handed_out.push(taken.run.first);
        if taken.run.count == 2 {
            let rest = Run { first: taken.run.first + taken.step, count: 1 };
            let _held = lock.lock().unwrap();
            if !current.take_back(rest) {
                handed_out.push(rest.first);
            }
        }
    }
    handed_out
}

fn check(sessions: usize, times: usize, interruptions: usize, next_owner: u64) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(interruptions);
    model.check(move || {
        let (current, lock) = (Arc::new(Current::default()), Arc::new(Mutex::new(())));
        current.open(OWNER, FIRST, 1);
        let sessions: Vec<_> = (0..sessions)
            .map(|_| {
                let (current, lock) = (Arc::clone(&current), Arc::clone(&lock));
                thread::spawn(move || session(&current, &lock, times))
            })
            .collect();
        let mut all = Vec::new();
        {
            let _held = lock.lock().unwrap();
            // What was left is kept, as what was given back.
            all.extend(current.close().into_iter().flat_map(|run| numbers(run, 1)));
            current.open(next_owner, SECOND, SECOND_STEP);
        }
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
    check(2, 1, 1, OWNER);
}

#[test]
fn a_range_of_another_owner_is_left_alone() {
    check(2, 1, 1, OWNER + 1);
}
