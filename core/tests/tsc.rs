//! Spans by a counter: never longer than the clock says, whatever the counter does.

use id_gen_core::tsc::{
    LONGEST_NS, TscCalibration, TscExtrapolation, TscInterval, TscSample, UNINTERRUPTED_NS,
};
use proptest::prelude::*;

/// A sample that nothing interrupted.
fn sample(count: u64, mono_ns: u64) -> TscSample {
    TscSample { before_ns: mono_ns, count, after_ns: mono_ns + 60 }
}

/// A calibration that has learnt from a counter of that rate.
fn learnt(counts_per_ns: f64, from: u64) -> TscCalibration {
    let mut calibration = TscCalibration::New;
    for mono_ns in [0, 30_000_000] {
        let count = from.wrapping_add((mono_ns as f64 * counts_per_ns) as u64);
        calibration.add_sample(sample(count, mono_ns));
    }
    calibration
}

/// Nanoseconds until the next of three reads: as a rule next to none.
fn wait() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..UNINTERRUPTED_NS / 2, 1 => 0u64..10_000_000]
}

#[test]
fn it_learns_from_two_samples_far_enough_apart() {
    let mut calibration = TscCalibration::New;
    calibration.add_sample(sample(0, 0));
    calibration.add_sample(sample(30_000_000, 10_000_000));
    assert_eq!(calibration.interval(0, 1_000), TscInterval::default());
    let last = sample(60_000_000, 20_000_000);
    assert!(calibration.add_sample(last));
    assert_eq!(calibration, TscCalibration::Known { counts_per_ns: 3.0, last });
}

#[test]
fn a_counter_that_stands_is_useless() {
    for count in [0, 1_000] {
        let mut calibration = TscCalibration::New;
        calibration.add_sample(sample(0, 0));
        assert!(!calibration.add_sample(sample(count, 20_000_000)));
        assert_eq!(calibration, TscCalibration::Unusable);
        assert!(!calibration.interval(count, 1_000_000).is_some());
    }
}

/// A suspended machine's counter goes on, or begins again, while the clock stands still.
#[test]
fn a_suspension_while_it_learns_begins_anew() {
    let asleep_s = [10, 60, 3_600];
    for count in asleep_s.map(|s| s * 3_000_000_000).into_iter().chain([u64::MAX / 2]) {
        let mut calibration = TscCalibration::New;
        calibration.add_sample(sample(0, 0));
        let awake = sample(count, 20_000_000);
        assert!(!calibration.add_sample(awake));
        assert_eq!(calibration, TscCalibration::Started(awake));
        assert!(calibration.add_sample(sample(count + 60_000_000, 40_000_000)));
    }
}

#[test]
fn samples_far_apart_are_not_compared() {
    let mut calibration = TscCalibration::New;
    for mono_ns in [0, 5_000_000_000, 10_000_000_000] {
        assert!(!calibration.add_sample(sample(mono_ns * 3, mono_ns)));
        assert_eq!(calibration, TscCalibration::Started(sample(mono_ns * 3, mono_ns)));
    }
    let mut calibration = learnt(3.0, 0);
    assert!(calibration.add_sample(sample(900_000_000, 300_000_000)));
    assert!(!calibration.add_sample(sample(9_000_000_000, 3_000_000_000)));
}

#[test]
fn a_counter_that_leaves_the_clock_is_not_relied_on() {
    let known = learnt(3.0, 0);
    // After 10 ms more: it stood still, went at half its rate, raced, was reset.
    for count in [90_000_000, 105_000_000, 180_000_000, 5] {
        let mut calibration = known;
        assert!(!calibration.add_sample(sample(count, 40_000_000)));
        assert_eq!(calibration, TscCalibration::New, "the clock source is asked for again");
    }
    let mut calibration = known;
    assert!(calibration.add_sample(sample(120_000_000, 40_000_000)));
}

#[test]
fn an_extrapolation_of_nothing_is_over() {
    assert!(!TscExtrapolation::NONE.is_some());
    assert_eq!(TscExtrapolation::NONE.at(0), None);
    assert_eq!(TscCalibration::Unusable.extrapolation(0, 5, 5, 1.0).at(0), None);
}

#[test]
fn a_span_of_nothing_is_over() {
    assert!(!TscInterval::default().is_some());
    assert!(!TscInterval::default().contains(0));
}

proptest! {
    /// Each sample waits for a processor before or after the counter is read, or doesn't.
    #[test]
    fn an_interrupted_sample_teaches_nothing(
        counts_per_ns in 0.2f64..9.0,
        waits in prop::collection::vec((wait(), wait(), 0u64..30_000_000), 2..20),
    ) {
        let (mut calibration, mut ns) = (TscCalibration::New, 0);
        for (before, after, until_next) in waits {
            let count = ((ns + before) as f64 * counts_per_ns) as u64;
            calibration.add_sample(TscSample { before_ns: ns, count, after_ns: ns + before + after });
            ns += before + after + until_next;
        }
        if let TscCalibration::Known { counts_per_ns: learnt, .. } = calibration {
            let off = (learnt / counts_per_ns - 1.0).abs();
            prop_assert!(off < 1e-4, "off by {off}");
        }
        prop_assert_ne!(calibration, TscCalibration::Unusable);
    }

    #[test]
    fn a_span_is_over_when_its_time_is(
        counts_per_ns in 0.2f64..9.0, from: u64, ns in 0u64..10_000_000, slew in -0.0005f64..0.0005,
    ) {
        let span = learnt(counts_per_ns, from).interval(from, ns);
        let end = (ns.min(LONGEST_NS) as f64 * counts_per_ns * (1.0 + slew)) as u64;
        prop_assert!(!span.contains(from.wrapping_add(end)));
    }

    #[test]
    fn it_contains_for_nearly_as_long(counts_per_ns in 0.5f64..9.0, from: u64, ns in 1_000u64..1_000_000) {
        let span = learnt(counts_per_ns, from).interval(from, ns);
        let nearly = (ns as f64 * counts_per_ns * 0.99) as u64;
        prop_assert!(span.contains(from.wrapping_add(nearly)));
    }

    #[test]
    fn an_extrapolation_is_at_most_a_thousandth_and_one_behind(
        counts_per_ns in 0.2f64..9.0, from: u64, base in 0u64..1 << 60, fraction: u32,
        per_ns in 0.0f64..1.0, at in 0.0f64..1.0, slew in -0.0005f64..0.0005,
    ) {
        let extrapolation = learnt(counts_per_ns, from).extrapolation(from, base, fraction, per_ns);
        // The moment at which the counter goes up.
        let counts = (at * LONGEST_NS as f64 * counts_per_ns * (1.0 + slew)) as u64;
        let ns = counts as f64 / counts_per_ns / (1.0 + slew);
        let count = from.wrapping_add(counts);
        if let Some(value) = extrapolation.at(count) {
            let passed = (value - base) as f64;
            let truth = f64::from(fraction) / 4_294_967_296.0 + ns * per_ns;
            prop_assert!(passed <= truth + 1e-6, "{passed} is ahead of {truth}");
            prop_assert!(passed >= truth * 0.998 - 2.0, "{passed} is far behind {truth}");
        } else {
            prop_assert!(at > 0.99 || (ns * counts_per_ns) < 10.0, "over at {at}");
        }
    }

    #[test]
    fn a_counter_that_jumps_ends_it(counts_per_ns in 0.2f64..9.0, from: u64, ns: u64, jump in 100_000_000u64..u64::MAX) {
        let span = learnt(counts_per_ns, from).interval(from, ns);
        prop_assert!(!span.contains(from.wrapping_add(jump)));
    }
}
