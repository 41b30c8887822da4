//! Laws of UUIDv7: strictly increasing whatever the clock does, and true to the clock.

use std::time::Duration;

use id_gen_core::uuid;
use id_gen_core::uuid7::{self, Generator};
use proptest::prelude::*;

const STEP_NS: u64 = 245;

fn step_at(unix_ns: u64) -> u64 {
    uuid7::steps(Duration::from_nanos(unix_ns)).0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn strictly_increasing_whatever_the_clock_does(
        start in 0..2_000_000_000_000_000_000u64,
        moves in prop::collection::vec((-2_000_000..2_000_000i64, any::<u64>()), 2..300),
    ) {
        let mut generator = Generator::default();
        let mut now = start;
        let mut last = [0u8; 16];
        for (by, random) in moves {
            now = now.saturating_add_signed(by);
            let uuid = uuid7::of(generator.next(step_at(now), random));
            prop_assert!(uuid > last);
            prop_assert_eq!(uuid::version(&uuid), Some(7));
            last = uuid;
        }
    }

    #[test]
    fn the_time_is_the_highest_the_clock_has_shown(
        start in 1_000_000_000u64..2_000_000_000_000_000_000,
        moves in prop::collection::vec((0..500_000i64, any::<u64>()), 2..300),
    ) {
        let mut generator = Generator::default();
        let mut now = start;
        for (by, random) in moves {
            now = now.saturating_add_signed(by);
            let moment = generator.next(step_at(now), random);
            let uuid_ms = uuid7::unix_ms(&uuid7::of(moment)).cast_unsigned();
            prop_assert!(uuid_ms == now / 1_000_000 || uuid_ms == (now + STEP_NS) / 1_000_000);
        }
    }

    #[test]
    fn a_uuid_lies_between_the_bounds_of_its_millisecond(now in 0..2_000_000_000_000_000_000u64, random in any::<u64>()) {
        let moment = Generator::default().next(step_at(now), random);
        let uuid = uuid7::of(moment);
        prop_assert!(uuid7::min_of(uuid7::unix_ms_of(moment)) <= uuid && uuid <= uuid7::max_of(uuid7::unix_ms_of(moment)));
    }

    #[test]
    fn moving_a_moment_keeps_the_order_of_its_generator(
        randoms in prop::collection::vec(any::<u64>(), 2..100), shift in 0..1_000_000_000u64,
    ) {
        let mut generator = Generator::default();
        let now = 1_700_000_000_000_000_000;
        let uuids: Vec<[u8; 16]> = randoms
            .into_iter()
            .map(|random| generator.next(step_at(now), random))
            .map(|moment| uuid7::moved(moment, uuid7::unix_ms_of(moment) + shift))
            .collect();
        prop_assert!(uuids.is_sorted_by(|a, b| a < b));
    }
}

/// The worst case for the random part: a clock that stands still and the largest increments.
#[test]
fn a_frozen_clock_moves_on_by_single_steps_only() {
    let mut generator = Generator::default();
    let now = 1_700_000_000_000_000_000;
    let first = generator.next(step_at(now), u64::MAX);
    let mut last = first;
    for _ in 0..10_000_000 {
        let moment = generator.next(step_at(now), u64::MAX);
        assert!(uuid7::of(moment) > uuid7::of(last));
        last = moment;
    }
    assert!(
        uuid7::unix_ms_of(last) - uuid7::unix_ms_of(first) <= 1,
        "three steps, under a millisecond"
    );
}
