//! Spans by a counter: never longer than the clock says, whatever the counter does.

use id_gen_core::meter::{LONGEST_NS, Look, Meter, Span};
use proptest::prelude::*;

/// A meter that has learnt from a counter of that pace.
fn learnt(pace: f64, from: u64) -> Meter {
    let mut meter = Meter::New;
    for mono_ns in [0, 30_000_000] {
        let count = from.wrapping_add((mono_ns as f64 * pace) as u64);
        meter.learn(Look { count, mono_ns });
    }
    meter
}

#[test]
fn it_learns_from_two_looks_far_enough_apart() {
    let mut meter = Meter::New;
    meter.learn(Look { count: 0, mono_ns: 0 });
    meter.learn(Look { count: 30_000_000, mono_ns: 10_000_000 });
    assert!(meter.is_learning());
    assert_eq!(meter.span(0, 1_000), Span::default());
    meter.learn(Look { count: 60_000_000, mono_ns: 20_000_000 });
    assert_eq!(meter, Meter::Known(3.0));
}

#[test]
fn a_counter_that_stands_or_races_is_useless() {
    for count in [0, 1_000, u64::MAX / 2] {
        let mut meter = Meter::New;
        meter.learn(Look { count: 0, mono_ns: 0 });
        meter.learn(Look { count, mono_ns: 20_000_000 });
        assert_eq!(meter, Meter::Useless);
        assert!(!meter.span(count, 1_000_000).is_some());
    }
}

#[test]
fn a_span_of_nothing_is_over() {
    assert!(!Span::default().is_some());
    assert!(!Span::default().goes_on(0));
}

proptest! {
    #[test]
    fn a_span_is_over_when_its_time_is(
        pace in 0.02f64..50.0, from: u64, ns in 0u64..10_000_000, slew in -0.0005f64..0.0005,
    ) {
        let span = learnt(pace, from).span(from, ns);
        let end = (ns.min(LONGEST_NS) as f64 * pace * (1.0 + slew)) as u64;
        prop_assert!(!span.goes_on(from.wrapping_add(end)));
    }

    #[test]
    fn it_goes_on_for_nearly_as_long(pace in 0.5f64..50.0, from: u64, ns in 1_000u64..1_000_000) {
        let span = learnt(pace, from).span(from, ns);
        let nearly = (ns as f64 * pace * 0.99) as u64;
        prop_assert!(span.goes_on(from.wrapping_add(nearly)));
    }

    #[test]
    fn a_counter_that_jumps_ends_it(pace in 0.02f64..50.0, from: u64, ns: u64, jump in 100_000_000u64..u64::MAX) {
        let span = learnt(pace, from).span(from, ns);
        prop_assert!(!span.goes_on(from.wrapping_add(jump)));
    }
}
