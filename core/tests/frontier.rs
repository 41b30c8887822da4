//! Laws of the frontier: nothing twice, nothing past the ceiling, always upwards.

use id_gen_core::block::{self, Block};
use id_gen_core::frontier::{
    Bound, ClaimError, ClaimSize, Frontier, Limits, Run, SequenceStart, UNRESERVED,
};
use id_gen_core::layout::{Field, Layout};
use id_gen_core::lead::{LeadLimit, bulk_threshold};
use id_gen_core::presets;
use proptest::prelude::*;

/// Eight IDs a tick, so that overflow is reached at once.
fn tiny() -> Layout {
    Layout::new(0, 1, false, &[(Field::Time, 20), (Field::Worker, 2), (Field::Sequence, 3)])
        .unwrap()
}

fn limits(max_lead_ticks: u64) -> Limits {
    Limits {
        lead: LeadLimit::of_ticks(max_lead_ticks),
        reserved_end: UNRESERVED,
        sequence_start: SequenceStart::Zero,
    }
}

/// Tells a claim that is too far ahead at this position until which tick of the clock it has to wait.
#[track_caller]
fn assert_due(claim: Result<Run, ClaimError>, layout: &Layout, limits: &Limits, tick: u64) {
    match claim {
        Err(ClaimError::Reached { bound: Bound::Clock, position }) => {
            assert_eq!(limits.lead.due_tick(layout, position), tick);
        }
        other => panic!("{other:?}"),
    }
}

/// A batch claimed in one go.
fn all(count: u64) -> ClaimSize {
    ClaimSize::Batch { remaining: count, chunk: count }
}

fn default_layout() -> Layout {
    presets::by_name("default").unwrap().layout
}

#[test]
fn a_full_tick_waits_for_the_next_when_no_lead_is_allowed() {
    let (layout, limits) = (tiny(), limits(0));
    let mut frontier = Frontier::new(0);
    assert_eq!(frontier.claim(&layout, 100, all(8), &limits), Ok(Run { start: 800, count: 8 }));
    assert_due(frontier.claim(&layout, 100, all(1), &limits), &layout, &limits, 101);
    assert_eq!(frontier.position(), 808, "a refused claim leaves the frontier alone");
    assert_eq!(frontier.claim(&layout, 101, all(1), &limits), Ok(Run { start: 808, count: 1 }));
}

#[test]
fn a_full_tick_runs_ahead_as_far_as_the_lead_allows() {
    let (layout, limits) = (tiny(), limits(2));
    let mut frontier = Frontier::new(0);
    assert_eq!(frontier.claim(&layout, 100, all(1000), &limits), Ok(Run { start: 800, count: 24 }));
    assert_due(frontier.claim(&layout, 100, all(1), &limits), &layout, &limits, 101);
    assert_eq!(frontier.claim(&layout, 101, all(1000), &limits), Ok(Run { start: 824, count: 8 }));
}

/// Whoever loads in bulk, and however far the lead has gone for another reason, sessions that ask for few get theirs in
/// every tick of the clock.
#[test]
fn bulk_leaves_room_in_every_tick() {
    for layout in [default_layout(), presets::by_name("baidu").unwrap().layout] {
        for max_lead_ticks in [0, 1, 2, 5, 5_000] {
            let modest = limits(max_lead_ticks);
            let bulk = Limits { lead: modest.lead.for_bulk(&layout), ..modest };
            let mut frontier = Frontier::new(0);
            for now_tick in 200_000_000..200_000_010 {
                while frontier.claim(&layout, now_tick, all(1 << 40), &bulk).is_ok() {}
                for _ in 0..bulk.lead.reserve() {
                    assert!(frontier.claim(&layout, now_tick, all(1), &modest).is_ok());
                }
            }
        }
    }
}

/// Where the lead reaches the layout's end, no request waits for a tick that never comes.
#[test]
fn bulk_takes_the_last_tick_of_a_layout() {
    let layout = tiny();
    let last = layout.ticks() - 1;
    let bulk = Limits { lead: limits(10).lead.for_bulk(&layout), ..limits(10) };
    let mut frontier = Frontier::new(0);
    let run = frontier.claim(&layout, last - 5, all(u64::MAX), &bulk).unwrap();
    assert_eq!(run.end(), layout.first_position(last + 1));
    assert_eq!(frontier.claim(&layout, last - 5, all(1), &bulk), Err(ClaimError::Exhausted));
}

/// A clock that was set back by nearly all of the lead makes bulk requests wait for a tick, and no longer.
#[test]
fn bulk_uses_all_of_the_lead_but_a_tick() {
    let layout = tiny();
    let bulk = Limits { lead: limits(10).lead.for_bulk(&layout), ..limits(10) };
    let mut frontier = Frontier::new(layout.first_position(109));
    assert!(frontier.claim(&layout, 100, all(1), &bulk).is_ok());
    frontier.raise(layout.first_position(110));
    assert_due(frontier.claim(&layout, 100, all(1), &bulk), &layout, &bulk, 101);
    assert!(frontier.claim(&layout, 101, all(1), &bulk).is_ok());
}

#[test]
fn fewer_modest_sessions_than_64_leave_something_of_a_tick() {
    for preset in presets::all() {
        let modest = bulk_threshold(&preset.layout);
        assert!(modest >= 1);
        assert!(modest == 1 || 63 * modest < preset.layout.per_tick(), "{}", preset.name);
    }
}

#[test]
fn a_clock_that_moved_back_is_a_lead() {
    let (layout, limits) = (tiny(), limits(10));
    let mut frontier = Frontier::new(0);
    frontier.claim(&layout, 100, all(1), &limits).unwrap();
    assert_eq!(frontier.claim(&layout, 90, all(1), &limits), Ok(Run { start: 801, count: 1 }));
    assert_due(frontier.claim(&layout, 89, all(1), &limits), &layout, &limits, 90);
}

#[test]
fn a_reservation_stops_a_claim_short_and_then_altogether() {
    let layout = tiny();
    let limits = Limits { reserved_end: 804, ..limits(2) };
    let mut frontier = Frontier::new(0);
    assert_eq!(frontier.claim(&layout, 100, all(1000), &limits), Ok(Run { start: 800, count: 4 }));
    let unreserved = Err(ClaimError::Reached { bound: Bound::Reservation, position: 804 });
    assert_eq!(frontier.claim(&layout, 100, all(1), &limits), unreserved);
}

#[test]
fn the_last_tick_is_used_to_its_last_position_and_no_further() {
    for preset in presets::all() {
        let layout = preset.layout;
        let last = layout.ticks() - 1;
        let mut frontier = Frontier::new(0);
        let run = frontier.claim(&layout, last, all(u64::MAX), &limits(u64::MAX)).unwrap();
        assert_eq!(run, Run { start: layout.first_position(last), count: layout.per_tick() });
        let mut most = Layout::to_bigint(layout.id_at(run.end() - 1, 0));
        assert!(most > 0, "{}", preset.name);
        assert_eq!(frontier.claim(&layout, last, all(1), &limits(5)), Err(ClaimError::Exhausted));
        assert_eq!(
            frontier.claim(&layout, last + 1, all(1), &limits(5)),
            Err(ClaimError::Exhausted)
        );
        most = Layout::to_bigint(layout.max_of(last));
        assert!(most > 0);
    }
}

#[test]
fn quiet_ticks_start_at_varying_places_in_the_lowest_64th() {
    let layout = default_layout();
    let limits = Limits { sequence_start: SequenceStart::Spread, ..limits(5000) };
    let mut frontier = Frontier::new(0);
    let mut seen = [0u32; 64];
    for tick in 0..64_000u64 {
        let run = frontier.claim(&layout, tick * 7, all(1), &limits).unwrap();
        seen[(run.start - layout.first_position(tick * 7)) as usize] += 1;
    }
    // 1000 each if perfectly even.
    assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
}

#[test]
fn a_block_is_used_in_order_then_dropped_with_its_tick_or_generation() {
    let layout = default_layout();
    let tick_ns = |tick: u64| layout.tick_start_ms(tick) as u64 * 1_000_000;
    let node_bits = layout.node_bits(1, 2).unwrap();
    let run = Run { start: layout.first_position(500) + 7, count: 3 };
    let block = Block::default();
    let first_id = layout.id_at(run.start, node_bits);
    let fill = || block.fill(&layout, first_id, run.count, 400, 9);
    assert_eq!(block.take(tick_ns(400), 0), None, "a new block is empty");
    fill();
    let ids: Vec<u64> = std::iter::from_fn(|| block.take(tick_ns(401) - 1, 9)).collect();
    let expected: Vec<u64> = (run.start..run.end()).map(|p| layout.id_at(p, node_bits)).collect();
    assert_eq!(ids, expected);
    fill();
    assert_eq!(block.take(tick_ns(401), 9), None, "the clock left the tick of the claim");
    assert_eq!(block.take(tick_ns(400) - 1, 9), None, "the clock went back");
    assert_eq!(block.take(tick_ns(400), 10), None, "the generation changed");
    assert_eq!(block.left(), 3);
    assert_eq!(block.take(tick_ns(400), 9), Some(expected[0]));
    block.clear();
    assert_eq!(block.left(), 0);
    assert_eq!(block.take(tick_ns(400), 9), None);
}

#[test]
fn blocks_grow_while_used_up_within_a_tick_and_fall_back_to_one() {
    assert_eq!(block::next_size(0, true, 64), 1);
    assert_eq!(block::next_size(1, true, 64), 2);
    assert_eq!(block::next_size(32, true, 64), 64);
    assert_eq!(block::next_size(64, true, 64), 64);
    assert_eq!(block::next_size(64, false, 64), 1);
    assert_eq!(block::next_size(1, true, 1), 1);
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Claim { want: ClaimSize },
    Clock { by: i64 },
    Settings { max_lead_ticks: u64, bulk: bool, spread: bool },
    Reserve { ahead: u64 },
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..40u64).prop_map(|count| Step::Claim { want: ClaimSize::Block(count) }),
        3 => (1..60u64, 1..20u64).prop_map(|(remaining, chunk)| Step::Claim { want: ClaimSize::Batch { remaining, chunk } }),
        3 => (-30..60i64).prop_map(|by| Step::Clock { by }),
        1 => (0..8u64, any::<bool>(), any::<bool>()).prop_map(|(max_lead_ticks, bulk, spread)| Step::Settings { max_lead_ticks, bulk, spread }),
        1 => (0..200u64).prop_map(|ahead| Step::Reserve { ahead }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_history_hands_out_each_position_once_and_upwards(
        layout in prop_oneof![
            Just(tiny()),
            Just(Layout::new(0, 1, false, &[(Field::Time, 12), (Field::Sequence, 9)]).unwrap()),
        ],
        steps in prop::collection::vec(any_step(), 1..200),
    ) {
        let mut frontier = Frontier::new(0);
        let mut limits = limits(3);
        let mut allowed = 3;
        let mut clock = 500i64;
        let mut next_free = 0u64;
        for step in steps {
            match step {
                Step::Clock { by } => clock = (clock + by).max(0),
                Step::Settings { max_lead_ticks, bulk, spread } => {
                    allowed = max_lead_ticks;
                    let lead = LeadLimit::of_ticks(max_lead_ticks);
                    limits.lead = if bulk { lead.for_bulk(&layout) } else { lead };
                    limits.sequence_start = if spread { SequenceStart::Spread } else { SequenceStart::Zero };
                }
                Step::Reserve { ahead } => limits.reserved_end = frontier.position() + ahead,
                Step::Claim { want } => {
                    let now = clock.cast_unsigned();
                    let before = frontier;
                    match frontier.claim(&layout, now, want, &limits) {
                        Ok(run) => {
                            let wanted = match want {
                                ClaimSize::Block(count) => {
                                    prop_assert_eq!(run.split_tick(&layout).1, None);
                                    count.max(1)
                                }
                                ClaimSize::Batch { remaining, .. } => remaining,
                            };
                            prop_assert!(run.count >= 1 && run.count <= wanted);
                            prop_assert!(run.start >= next_free, "handed out twice");
                            prop_assert!(layout.tick_of(run.start) >= now.min(layout.ticks() - 1));
                            prop_assert!(layout.tick_of(run.end() - 1) <= now + allowed);
                            prop_assert!(run.end() <= limits.reserved_end);
                            if run.count < wanted && run.end() != limits.reserved_end {
                                let ends_tick = |end| end == layout.first_position(layout.tick_of(end));
                                prop_assert!(ends_tick(run.end()) || ends_tick(run.end() + limits.lead.reserve()));
                            }
                            next_free = run.end();
                            prop_assert_eq!(frontier.position(), next_free);
                        }
                        Err(error) => {
                            prop_assert_eq!(frontier, before);
                            if let ClaimError::Reached { bound: Bound::Clock, position } = error {
                                let until_tick = limits.lead.due_tick(&layout, position);
                                prop_assert!(until_tick > now);
                                let mut later = frontier;
                                let unreserved = Limits { reserved_end: UNRESERVED, ..limits };
                                prop_assert!(later.claim(&layout, until_tick, all(1), &unreserved).is_ok());
                                let mut earlier = frontier;
                                prop_assert!(earlier.claim(&layout, until_tick - 1, all(1), &unreserved).is_err());
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn parts_of_a_batch_meet_only_where_the_tick_changes(total in 1..100_000u64, chunk in 1..5000u64) {
        let layout = default_layout();
        let mut frontier = Frontier::new(layout.first_position(1000) + 17);
        let mut remaining = total;
        while remaining > 0 {
            let run = frontier.claim(&layout, 1000, ClaimSize::Batch { remaining, chunk }, &limits(5000)).unwrap();
            remaining -= run.count;
            if remaining > 0 {
                prop_assert_eq!(run.end(), layout.first_position(layout.tick_of(run.end())));
            }
        }
    }

    #[test]
    fn splitting_by_ticks_loses_nothing(start in 0..1_000_000u64, count in 1..50_000u64) {
        let layout = default_layout();
        let mut rest = Some(Run { start, count });
        let mut next = start;
        while let Some(run) = rest {
            let (first, after) = run.split_tick(&layout);
            prop_assert_eq!(first.start, next);
            prop_assert_eq!(layout.tick_of(first.start), layout.tick_of(first.end() - 1));
            next = first.end();
            rest = after;
        }
        prop_assert_eq!(next, start + count);
    }
}
