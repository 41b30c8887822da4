//! The histogram of waits: every time has its bucket.

use id_gen_core::histogram::{BUCKETS, at_most_us, bucket};
use proptest::prelude::*;

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

proptest! {
    #[test]
    fn a_time_lies_in_its_bucket(ns: u64) {
        let index = bucket(ns);
        prop_assert!(ns as f64 <= at_most_us(index) * 1000.0);
        if index > 0 {
            prop_assert!(ns as f64 > at_most_us(index - 1) * 1000.0);
        }
    }
}
