//! A block that sessions share, under many orders of memory accesses that the language allows, as loom finds them.
//!
//! Sessions read the terms and take IDs while the holder of the lock closes one block and opens another of
//! other terms. Whatever they see, no ID comes twice, and each is of the block that was open when it was
//! taken. Each thread may be interrupted a few times, anywhere; stale reads are not limited. What loom does not
//! try is a write that overtakes an earlier one: against that there are the fences, which are argued where
//! they stand.

use id_gen_core::layout::{Field, Layout};
use id_gen_core::shared_block::{self, SharedBlock};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

/// IDs of the second block are odd, and of the first even.
const SECOND: u64 = 1_001;
/// What each block holds.
const COUNT: u64 = 3;

fn layout(worker_bits: u32) -> Layout {
    let fields = [(Field::Time, 4), (Field::Sequence, 2), (Field::Worker, worker_bits)];
    Layout::new(0, 1000, false, &fields).unwrap()
}

fn take(block: &SharedBlock, times: usize) -> Vec<u64> {
    (0..times).filter_map(|_| block.terms().and_then(|terms| block.take(&terms))).collect()
}

/// What is taken while the holder of the lock closes the first block and opens the second.
fn taken_while_changing(sessions: usize, times: usize) -> (Vec<Vec<u64>>, u64, u64) {
    let (first, second) = (layout(1), layout(2));
    let block = Arc::new(SharedBlock::default());
    block.open(&first, 0, COUNT, 0);
    let sessions: Vec<_> = (0..sessions)
        .map(|_| {
            let block = Arc::clone(&block);
            thread::spawn(move || take(&block, times))
        })
        .collect();
    let from_first = block.close();
    // As a claim does: what was not taken of the first block is not there in the second.
    block.open(&second, SECOND, COUNT, 1);
    let taken = sessions.into_iter().map(|session| session.join().unwrap()).collect();
    (taken, from_first, block.close())
}

fn check(sessions: usize, times: usize, interruptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(interruptions);
    model.check(move || {
        let (taken, from_first, from_second) = taken_while_changing(sessions, times);
        for session in &taken {
            assert!(session.is_sorted(), "a session goes back: {session:?}");
        }
        let mut all = taken.concat();
        all.sort_unstable();
        let (count, unique) = (all.len(), {
            all.dedup();
            all.len()
        });
        assert_eq!(count, unique, "an ID came twice");
        for id in all {
            let place = if id < SECOND {
                assert_eq!(id % 2, 0, "terms of two blocks in one ID");
                assert!(id / 2 < from_first, "taken after the block was closed");
                id / 2
            } else {
                assert_eq!((id - SECOND) % 4, 0, "terms of two blocks in one ID");
                assert!((id - SECOND) / 4 < from_second, "taken after the block was closed");
                (id - SECOND) / 4
            };
            assert!(place < COUNT, "beyond the end of the block");
        }
    });
}

#[test]
fn one_session_takes_while_the_block_changes() {
    check(1, 2, 2);
}

#[test]
fn two_sessions_take_while_the_block_changes() {
    check(2, 1, 1);
}

/// Without threads: what a block gives is what it was opened with, and no more.
#[test]
fn a_block_ends_where_it_was_opened_to() {
    loom::model(|| {
        let (layout, block) = (layout(1), SharedBlock::default());
        assert!(block.terms().is_none(), "closed");
        assert!(!block.is_used());
        block.open(&layout, 7, 2, 3);
        assert!(block.is_used());
        let terms = block.terms().unwrap();
        assert_eq!(terms.now_tick, 3);
        let given: Vec<_> = (0..4).map(|_| block.take(&terms)).collect();
        assert_eq!(given, [Some(7), Some(9), None, None], "two IDs, one stride apart");
        assert_eq!(block.close(), 2, "those who found it used up took nothing");
        assert!(block.terms().is_none() && block.take(&terms).is_none(), "closed");
        block.open(&layout, 11, 1, 3);
        assert_eq!(block.take(&terms), None, "terms of an earlier block");
        assert_eq!(block.close(), 1, "what that skipped counts as taken");
    });
}

#[test]
fn a_block_is_good_for_the_tick_of_its_claim() {
    loom::model(|| {
        let block = SharedBlock::default();
        // Ticks of a second, from the Unix epoch.
        block.open(&layout(1), 0, COUNT, 5);
        let terms = block.terms().unwrap();
        let second = 1_000_000_000;
        assert_eq!(terms.left_ns(5 * second), second);
        assert_eq!(terms.left_ns(6 * second - 1), 1);
        assert_eq!(terms.left_ns(6 * second), 0);
        assert_eq!(terms.left_ns(5 * second - 1), 0, "a clock that was set back");
    });
}

#[test]
fn a_block_is_never_larger_than_the_count_has_room_for() {
    loom::model(|| {
        let block = SharedBlock::default();
        block.open(&layout(1), 0, u64::MAX, 0);
        let largest = 1 << 19;
        assert_eq!(shared_block::LARGEST, largest);
        assert_eq!(block.terms().map(|terms| terms.count()), Some(largest));
    });
}

/// What the commit horizon rests on where a block is shared.
#[test]
fn who_closes_the_block_sees_what_was_published_before_an_id_was_taken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        const PENDING: u64 = 1;
        let block = Arc::new(SharedBlock::default());
        block.open(&layout(1), 0, COUNT, 0);
        let sessions: Vec<_> = (0..2)
            .map(|_| {
                let (block, pending) = (Arc::clone(&block), Arc::new(AtomicU64::new(0)));
                let published = Arc::clone(&pending);
                let taking = thread::spawn(move || {
                    published.store(PENDING, Relaxed);
                    take(&block, 1).pop()
                });
                (taking, pending)
            })
            .collect();
        block.close();
        let seen: Vec<u64> = sessions.iter().map(|(_, pending)| pending.load(Relaxed)).collect();
        for ((taking, _), seen) in sessions.into_iter().zip(seen) {
            if taking.join().unwrap().is_some() {
                assert_eq!(seen, PENDING, "taken by a session that is not pending");
            }
        }
    });
}
