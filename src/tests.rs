//! Tests that run inside a server, for what only the inside can see. What SQL can see is in
//! `tests/regress`, what it takes several sessions or servers to see in `tests/cluster`.

/// The schema that `cargo pgrx test` looks for tests in.
#[pgrx::pg_schema]
mod tests {
    use id_gen_core::frontier::Want;
    use pgrx::prelude::*;

    use crate::refusal::Refusal;
    use crate::shared::{self, Segment};
    use crate::{backend, claim, memory};

    fn next_id() {
        if backend::take().is_none() {
            claim::next_id().expect("an ID");
        }
    }

    #[pg_test]
    fn a_session_that_asks_without_pause_gets_larger_blocks() {
        let attached = backend::attach().expect("the server is set up to generate");
        // Blocks grow only within a tick, and any tick may end, so the next one is tried too.
        let reached = (0..1_000_000).any(|_| {
            next_id();
            attached.slot.block.left() > 8
        });
        assert!(reached);
    }

    #[pg_test]
    fn issued_ids_are_counted_without_counting_them_one_by_one() {
        let attached = backend::attach().expect("the server is set up to generate");
        let before = attached.slot.counts();
        for _ in 0..10_000 {
            next_id();
        }
        let after = attached.slot.counts();
        assert_eq!(after.issued - before.issued, 10_000);
        assert!(after.claims - before.claims < 10_000);
    }

    #[pg_test]
    fn a_batch_drops_what_is_left_of_a_block() {
        let attached = backend::attach().expect("the server is set up to generate");
        let id = claim::next_id().expect("an ID");
        let part = claim::next_run(Want::Batch { remaining: 10, chunk: 10 }).expect("ten IDs");
        assert!(part.layout.id_at(part.run.start, part.node_bits) > id);
        assert_eq!(attached.slot.block.left(), 0);
    }

    #[pg_test]
    fn a_slot_knows_its_process() {
        let attached = backend::attach().expect("the server is set up to generate");
        let pid = attached.slot.pid.load(std::sync::atomic::Ordering::Relaxed);
        // SAFETY: set once at process start.
        assert_eq!(pid, unsafe { pg_sys::MyProcPid });
        assert!(memory::segment().is_some());
    }

    /// A segment as one process of this version makes it for others to meet.
    fn new_segment() -> *mut Segment {
        const SLOTS: usize = 1;
        let room = std::alloc::Layout::from_size_align(shared::size(SLOTS), align_of::<Segment>())
            .expect("a size");
        // SAFETY: new memory of the size and alignment asked for; it is never freed.
        unsafe {
            let memory = std::alloc::alloc_zeroed(room);
            shared::create(memory.cast(), SLOTS);
            memory.cast()
        }
    }

    #[pg_test]
    fn a_segment_of_this_version_is_met() {
        // SAFETY: made for this process alone.
        assert!(unsafe { &*new_segment() }.meet().is_ok());
    }

    #[pg_test(error = "this session has loaded another version of id_gen than the running server")]
    fn a_segment_of_another_version_is_refused() {
        let segment = new_segment();
        // SAFETY: made for this process alone. It begins with its version in every version.
        let met = unsafe {
            *segment.cast::<u64>() += 1;
            (*segment).meet()
        };
        met.unwrap_or_else(|refusal: Refusal| refusal.raise());
    }
}
