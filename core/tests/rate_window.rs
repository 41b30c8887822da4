//! Rates between samples.

use id_gen_core::rate_window::{RateWindow, Sample};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * S;

fn at(seconds: u64, issued: u64) -> Sample {
    Sample { mono_ns: seconds * S, issued, granted: issued * 2 }
}

/// A sample a second, `per_second` IDs in each.
fn steady(seconds: u64, per_second: u64) -> RateWindow {
    let mut rates = RateWindow::default();
    for second in 0..=seconds {
        rates.add(at(second, second * per_second));
    }
    rates
}

#[test]
fn without_samples_nothing_is_known() {
    assert_eq!(RateWindow::default().rate(at(5, 5), S), None);
    assert_eq!(RateWindow::default().busiest(at(5, 5), MINUTE), None);
}

#[test]
fn the_last_second_and_the_last_minute() {
    let mut rates = steady(200, 1_000);
    for second in 201..=210 {
        rates.add(at(second, 200_000 + (second - 200) * 7_000));
    }
    let now = at(210, 270_000);
    assert_eq!(rates.rate(now, S), Some(7_000.0));
    assert_eq!(rates.rate(now, MINUTE), Some(2_000.0));
    assert_eq!(rates.busiest(now, MINUTE), Some(14_000.0));
}

#[test]
fn what_was_busy_long_ago_is_forgotten() {
    let mut rates = steady(100, 1_000_000);
    for second in 101..=200 {
        rates.add(at(second, 100_000_000));
    }
    assert_eq!(rates.busiest(at(200, 100_000_000), MINUTE), Some(0.0));
}

#[test]
fn a_sample_that_comes_too_early_is_not_kept() {
    let mut rates = RateWindow::default();
    rates.add(at(10, 0));
    assert!(!rates.is_due(10 * S + S / 2));
    rates.add(Sample { mono_ns: 10 * S + S / 2, issued: 1_000_000, granted: 1_000_000 });
    assert_eq!(rates.rate(at(12, 4_000), S), Some(2_000.0));
}

#[test]
fn after_a_pause_the_rate_is_that_since_the_last_sample() {
    let rates = steady(5, 100);
    assert_eq!(rates.rate(at(105, 500), S), Some(0.0));
}

proptest! {
    #[test]
    fn no_rate_is_below_zero_or_undefined(
        samples in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..200),
        now: (u64, u64, u64),
        window: u64,
    ) {
        let sample = |(mono_ns, issued, granted)| Sample { mono_ns, issued, granted };
        let mut rates = RateWindow::default();
        for each in samples {
            rates.add(sample(each));
        }
        for rate in [rates.rate(sample(now), window), rates.busiest(sample(now), window)] {
            prop_assert!(rate.is_none_or(|rate| rate >= 0.0 && rate.is_finite()));
        }
    }
}
