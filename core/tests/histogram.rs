//! The histogram of waits: every time has its bucket, and percentiles stay within a bucket of the
//! truth.

use id_gen_core::histogram::{BUCKETS, at_most_us, bucket, percentile_us};
use proptest::prelude::*;

fn counted(times_ns: &[u64]) -> [u64; BUCKETS] {
    let mut counts = [0; BUCKETS];
    for &ns in times_ns {
        counts[bucket(ns)] += 1;
    }
    counts
}

#[test]
fn buckets_end_at_powers_of_two_of_a_microsecond() {
    assert_eq!(bucket(0), 0);
    assert_eq!(bucket(1_000), 0);
    assert_eq!(bucket(1_001), 1);
    assert_eq!(bucket(2_000), 1);
    assert_eq!(bucket(2_001), 2);
    assert_eq!(bucket(1_024_000), 10);
    assert_eq!(bucket(600_000_000_000), 30, "the longest id_gen.max_wait has a bucket with an end");
    assert_eq!(bucket(u64::MAX), BUCKETS - 1);
}

#[test]
fn of_nothing_there_is_no_percentile() {
    assert_eq!(percentile_us(&[0; BUCKETS], 0.5), None);
}

#[test]
fn a_fraction_is_between_zero_and_one() {
    let counts = counted(&[5_000]);
    for fraction in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(percentile_us(&counts, fraction), None);
    }
}

proptest! {
    #[test]
    fn a_time_lies_in_its_bucket(ns: u64) {
        let index = bucket(ns);
        prop_assert!(ns as f64 <= at_most_us(index) * 1000.0);
        if index > 0 {
            prop_assert!(ns as f64 > at_most_us(index - 1) * 1000.0);
        }
    }

    #[test]
    fn a_percentile_lies_in_the_bucket_of_the_time_of_that_rank(
        mut times in prop::collection::vec(0u64..1_000_000_000_000, 1..200),
        fraction in 0.0f64..=1.0,
    ) {
        let counts = counted(&times);
        times.sort_unstable();
        let rank = (fraction * times.len() as f64).ceil().max(1.0) as usize;
        let index = bucket(times[rank - 1]);
        let found = percentile_us(&counts, fraction).unwrap();
        prop_assert!(found <= at_most_us(index));
        prop_assert!(index == 0 || found >= at_most_us(index - 1));
    }
}
