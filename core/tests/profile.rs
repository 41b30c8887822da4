//! The profile of a column beside the plainest way to count the same: everything at once, in maps.

use std::collections::{BTreeMap, HashMap};

use id_gen_core::layout::{Field, Layout, Parts};
use id_gen_core::presets::{self, by_name};
use id_gen_core::profile::bursts::Bursts;
use id_gen_core::profile::clock_order::{ClockOrder, NOTABLE_MS};
use id_gen_core::profile::duplicates::{Duplicates, EXAMPLES};
use id_gen_core::profile::kind::{Candidates, Kind, Plausibility};
use id_gen_core::profile::nodes::{MAX_NODES, Node, Nodes};
use id_gen_core::profile::pace::{PAUSES, Pace};
use id_gen_core::profile::remainders::{Remainders, SHARDS};
use id_gen_core::profile::rounding::{Rounded, Rounding};
use id_gen_core::profile::timeline::{MAX_BUCKETS, Timeline, WIDTHS_MS};
use id_gen_core::profile::{snowflakes, uuids};
use id_gen_core::uuid7;
use proptest::prelude::*;

/// 2026-07-01T00:00:00Z.
const NOW_MS: i64 = 1_782_864_000_000;
const DAY_MS: i64 = 86_400_000;

fn layout(name: &str) -> Layout {
    by_name(name).unwrap().layout
}

fn id(layout: &Layout, unix_ms: i64, datacenter: u32, worker: u32, sequence: u32) -> i64 {
    let tick = layout.tick_at(unix_ms * 1000).unwrap();
    Layout::to_bigint(layout.pack(Parts { tick, datacenter, worker, sequence }))
}

fn default() -> Plausibility {
    Plausibility::new(layout("default"), NOW_MS)
}

#[test]
fn kinds_of_numbers() {
    let layout = layout("default");
    let kind = |number| default().kind(number);
    assert_eq!(kind(-1), Kind::OutOfRange);
    for plain in [0, 1, i64::from(i32::MAX), 1 << 39] {
        assert_eq!(kind(plain), Kind::Plain);
    }
    assert!(matches!(kind(1 << 40), Kind::Snowflake(_)));
    assert!(
        matches!(kind(id(&layout, NOW_MS, 1, 2, 3)), Kind::Snowflake(parts) if parts.worker == 2)
    );
    assert!(matches!(kind(id(&layout, NOW_MS + 1, 0, 0, 0)), Kind::Future(_)));
    assert!(matches!(kind(i64::MAX), Kind::Future(_)));
}

#[test]
fn a_young_layout_has_no_plain_numbers() {
    let layout = layout("default");
    let young = Plausibility::new(layout, layout.epoch_ms() + DAY_MS - 1);
    assert!(matches!(young.kind(1), Kind::Snowflake(_)));
    let older = Plausibility::new(layout, layout.epoch_ms() + DAY_MS);
    assert_eq!(older.kind(1), Kind::Plain);
}

#[test]
fn another_layout_is_named() {
    for (name, other) in [("default", "twitter"), ("default", "discord"), ("default", "pgedge")] {
        let plausibility = Plausibility::new(layout(name), NOW_MS);
        let mut candidates = Candidates::new(&plausibility.layout, NOW_MS);
        for hours in 0..100 {
            let number = id(&layout(other), NOW_MS - hours * 3_600_000, 3, 1, 0);
            assert!(matches!(plausibility.kind(number), Kind::Future(_)), "{other}");
            candidates.note(number);
        }
        let fitting = candidates.fitting(NOW_MS);
        let (_, span) = fitting.iter().find(|(name, _)| *name == other).unwrap();
        assert_eq!((span.count, span.last_ms), (100, NOW_MS));
        assert!(fitting.iter().all(|(fitting, _)| *fitting != name));
        candidates.note(-1);
        assert!(candidates.fitting(NOW_MS).iter().all(|(name, _)| layout(name).is_unsigned()));
    }
    assert!(Candidates::new(&layout("default"), NOW_MS).fitting(NOW_MS).is_empty());
}

#[test]
fn a_clock_that_goes_back_counts_once() {
    let mut order = ClockOrder::default();
    for ms in [0, 5_000, 10_000, 9_500, 7_000, 7_100, 7_200, 12_000] {
        order.note(0, ms);
    }
    assert_eq!((order.steps, order.largest_ms, order.largest_from_ms), (1, 3_000, 10_000));
    // Another table begins anew.
    order.note(1, 0);
    assert_eq!(order.steps, 1);
    order.note(1, NOTABLE_MS);
    order.note(1, 0);
    assert_eq!(order.steps, 2);
    order.note(1, NOTABLE_MS - 1);
    order.note(1, 0);
    assert_eq!(order.steps, 2);
}

#[test]
fn more_workers_than_are_counted_are_counted_together() {
    let mut nodes = Nodes::default();
    for worker in (0..2 * MAX_NODES as u32).chain(0..10) {
        nodes.note(0, Node { datacenter: 0, worker }, 1);
    }
    assert_eq!(nodes.sorted().len(), MAX_NODES);
    assert_eq!(nodes.others.count, MAX_NODES as u64);
    assert_eq!(nodes.sorted()[0].span.count, 2);
}

#[test]
fn a_sequence_from_zero_is_uneven_and_one_in_order_is_not() {
    let (mut zero, mut even) = (Remainders::default(), Remainders::default());
    for number in 0..10_000 {
        zero.note(number << 22);
        even.note(number);
    }
    assert!(even.spreads().iter().all(|spread| !spread.is_uneven()));
    let uneven: Vec<u32> = zero
        .spreads()
        .into_iter()
        .filter(|spread| spread.is_uneven())
        .map(|spread| spread.shards)
        .collect();
    assert_eq!(uneven, [2, 4, 6, 8, 10, 12, 16, 32]);
    assert_eq!(zero.spreads()[0].fullest, 0);
    assert!((zero.spreads()[0].excess() - 2.0).abs() < 1e-9);
}

/// What numbers went through, as far as a profile can tell.
fn rounded(layout: &Layout, numbers: impl Iterator<Item = i64>) -> Option<Rounded> {
    let mut rounding = Rounding::new(layout);
    numbers.for_each(|number| rounding.note(number));
    rounding.found()
}

/// IDs of one in each millisecond, whose sequences begin anywhere.
fn steady(layout: &Layout, count: i64) -> impl Iterator<Item = i64> {
    (0..count).map(|i| id(layout, NOW_MS - i, 0, 1, (i * 37 % 64) as u32))
}

#[test]
fn what_numbers_went_through_is_told() {
    let layout = layout("default");
    let exact = || steady(&layout, 100);
    assert_eq!(rounded(&layout, exact()), None);
    let doubles = || exact().map(|number| number as f64);
    assert_eq!(rounded(&layout, doubles().map(|double| double as i64)), Some(Rounded::Double(64)));
    let written = doubles().map(|double| double.to_string().parse().unwrap());
    assert_eq!(rounded(&layout, written), Some(Rounded::DoubleAsText));
    let imported = exact().map(|number| number / 1000 * 1000);
    assert_eq!(rounded(&layout, imported), Some(Rounded::Spreadsheet(1000)));
    // One that is exact shows that the others did not go through it.
    let mixed = doubles().map(|double| double as i64).chain(exact().skip(1).take(1));
    assert_eq!(rounded(&layout, mixed), None);
    assert_eq!(rounded(&layout, doubles().map(|double| double as i64).take(19)), None);
}

#[test]
fn numbers_that_may_be_as_they_were_made_are_not_taken_for_rounded() {
    // Every tick begins with sequence 0.
    let zero = layout("default");
    assert_eq!(rounded(&zero, (0..100).map(|i| id(&zero, NOW_MS - i, 0, 1, 0))), None);
    // The worker has the lowest bits, and is the same in all.
    let sonyflake = layout("sonyflake");
    let ids = (0..100).map(|i| id(&sonyflake, NOW_MS - i * 10, 0, 4096, i as u32));
    assert_eq!(rounded(&sonyflake, ids), None);
    // A double holds all IDs of 53 bits.
    let js = layout("js");
    assert_eq!(rounded(&js, steady(&js, 1000)), None);
    assert_eq!(rounded(&js, [i64::MIN, -1, 0, i64::MAX].into_iter()), None);
}

#[test]
fn a_burst_over_several_ticks() {
    let layout = layout("default");
    let per_tick = layout.per_tick() as u32;
    let mut bursts = Bursts::new(&layout);
    assert_eq!(bursts.counts().fullest, None);
    let tick = |tick, worker, from, bursts: &mut Bursts| {
        for sequence in from..per_tick {
            bursts.note(&Parts { tick, datacenter: 0, worker, sequence });
        }
    };
    tick(10, 1, 60, &mut bursts);
    tick(10, 2, 0, &mut bursts);
    tick(11, 1, 0, &mut bursts);
    tick(12, 1, per_tick - 1, &mut bursts);
    tick(13, 1, 0, &mut bursts);
    tick(15, 1, 0, &mut bursts);
    let counts = bursts.counts();
    assert_eq!((counts.used_up, counts.longest_run), (5, 2));
    let fullest = counts.fullest.unwrap();
    assert_eq!((fullest.tick, fullest.node.worker, fullest.count), (10, 2, 4096));
    assert_eq!(bursts.counts(), counts);
}

#[test]
fn plain_numbers_after_snowflakes() {
    let snowflake = id(&layout("default"), NOW_MS, 0, 0, 0);
    let mut scan = snowflakes::Scan::new(default());
    for number in [1, 2, snowflake, 3] {
        scan.note(number);
    }
    scan.begin_table();
    scan.note(4);
    assert_eq!((scan.plain.count, scan.plain_after), (4, 1));
    assert_eq!((scan.plain.min, scan.plain.max), (1, 4));
    assert_eq!(scan.largest(), Some(snowflake));
}

#[test]
fn kinds_of_uuids() {
    let mut scan = uuids::Scan::new(NOW_MS);
    let four = 0x919108f7_52d1_4320_9bac_f847db4148a8_u128.to_be_bytes();
    for uuid in [[0; 16], [0xFF; 16], [0x11; 16], four] {
        scan.note(&uuid);
    }
    scan.note(&uuid7::min_of(NOW_MS as u64));
    scan.note(&uuid7::max_of(NOW_MS as u64 - 5_000));
    scan.note(&uuid7::min_of(NOW_MS as u64 + 1));
    assert_eq!((scan.nil, scan.max, scan.other_variant), (1, 1, 1));
    assert_eq!((scan.versions[4], scan.versions[7]), (1, 3));
    assert_eq!((scan.span.count, scan.future.count, scan.order.steps), (2, 1, 1));
}

/// IDs of a few workers within some hours, among them equal ones, in no order.
fn numbers() -> impl Strategy<Value = Vec<i64>> {
    let layout = layout("default");
    let one = (0i64..40_000_000, 0u32..2, 0u32..3, 0u32..4);
    let made = one.prop_map(move |(ms, datacenter, worker, sequence)| {
        id(&layout, NOW_MS - ms / 1000 * 997, datacenter, worker, sequence)
    });
    prop::collection::vec(prop_oneof![8 => made, 1 => 0i64..50, 1 => any::<i64>()], 0..300)
}

proptest! {
    #[test]
    fn a_scan_counts_as_maps_do(numbers in numbers()) {
        let layout = layout("default");
        let mut scan = snowflakes::Scan::new(default());
        let mut by_node: HashMap<(u32, u32), u64> = HashMap::new();
        let mut by_hour: BTreeMap<i64, u64> = BTreeMap::new();
        let mut kinds = [0u64; 4];
        for &number in &numbers {
            scan.note(number);
            match default().kind(number) {
                Kind::Snowflake(parts) => {
                    kinds[0] += 1;
                    *by_node.entry((parts.datacenter, parts.worker)).or_default() += 1;
                    let ms = layout.tick_start_ms(parts.tick);
                    *by_hour.entry(ms - ms.rem_euclid(3_600_000)).or_default() += 1;
                }
                Kind::Plain => kinds[1] += 1,
                Kind::Future(_) => kinds[2] += 1,
                Kind::OutOfRange => kinds[3] += 1,
            }
        }
        let counted = [scan.snowflakes, scan.plain, scan.future, scan.out_of_range].map(|range| range.count);
        prop_assert_eq!(counted, kinds);
        prop_assert_eq!(scan.largest(), numbers.iter().max().copied());
        let nodes = scan.nodes.sorted();
        prop_assert_eq!(nodes.len(), by_node.len());
        for counts in nodes {
            prop_assert_eq!(by_node[&(counts.node.datacenter, counts.node.worker)], counts.span.count);
        }
        let (width_ms, buckets) = scan.timeline.buckets();
        if width_ms == 3_600_000 {
            prop_assert_eq!(buckets, by_hour.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn duplicates_are_those_of_a_map(values in prop::collection::vec(0u8..40, 0..200)) {
        let mut sorted = values;
        sorted.sort_unstable();
        let mut times: BTreeMap<u8, u64> = BTreeMap::new();
        let mut duplicates = Duplicates::default();
        for value in sorted {
            *times.entry(value).or_default() += 1;
            duplicates.note(value);
        }
        times.retain(|_, times| *times > 1);
        prop_assert_eq!(duplicates.values, times.len() as u64);
        prop_assert_eq!(duplicates.surplus, times.values().map(|times| times - 1).sum::<u64>());
        prop_assert_eq!(duplicates.examples, times.into_iter().take(EXAMPLES).collect::<Vec<_>>());
    }

    #[test]
    fn remainders_are_those_of_each_number(
        ids in prop::collection::vec(0..=u64::MAX / 2, 1..200), shards in prop::sample::select(&SHARDS[..]),
    ) {
        let mut remainders = Remainders::default();
        let mut counts = vec![0; shards as usize];
        for id in ids {
            remainders.note(id);
            counts[(id % u64::from(shards)) as usize] += 1;
        }
        let spread = remainders.spreads().into_iter().find(|spread| spread.shards == shards).unwrap();
        prop_assert_eq!(Some(&spread.count), counts.iter().max());
        prop_assert_eq!(counts[spread.fullest as usize], spread.count);
    }

    #[test]
    fn a_timeline_loses_nothing(times in prop::collection::vec(0..=NOW_MS, 0..3000)) {
        let mut timeline = Timeline::new();
        for &ms in &times {
            timeline.note(ms);
        }
        let (width_ms, buckets) = timeline.buckets();
        prop_assert!(WIDTHS_MS.contains(&width_ms));
        prop_assert!(buckets.len() <= MAX_BUCKETS);
        let mut plain: BTreeMap<i64, u64> = BTreeMap::new();
        for ms in times {
            let start = buckets.partition_point(|&(start, _)| start <= ms) - 1;
            let (start, _) = buckets[start];
            prop_assert!(start <= ms && ms < start + width_ms);
            *plain.entry(start).or_default() += 1;
        }
        prop_assert_eq!(buckets, plain.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn pace_is_what_a_list_says(times in prop::collection::vec(0i64..200_000, 0..200)) {
        let mut times = times;
        times.sort_unstable();
        let mut pace = Pace::default();
        let mut by_second: BTreeMap<i64, u64> = BTreeMap::new();
        for &ms in &times {
            pace.note(ms);
            *by_second.entry(ms / 1000).or_default() += 1;
        }
        let most = by_second.values().max().copied();
        prop_assert_eq!(pace.busiest_second().map(|(_, count)| count), most);
        if let Some((second_ms, count)) = pace.busiest_second() {
            prop_assert_eq!(by_second[&(second_ms / 1000)], count);
        }
        let mut pauses: Vec<i64> =
            times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&ms| ms >= 1000).collect();
        pauses.sort_unstable_by(|a, b| b.cmp(a));
        pauses.truncate(PAUSES);
        let found: Vec<i64> = pace.pauses().iter().map(|pause| pause.length_ms()).collect();
        prop_assert_eq!(found, pauses);
    }

    #[test]
    fn ticks_are_those_of_a_map(mut numbers in numbers(), preset in 0usize..10) {
        let layout = presets::all()[preset].layout;
        numbers.sort_unstable_by_key(|number| number.cast_unsigned());
        let mut bursts = Bursts::new(&layout);
        let mut counts: BTreeMap<(u64, u32, u32), u64> = BTreeMap::new();
        for number in numbers {
            let Ok(id) = layout.from_bigint(number) else { continue };
            let parts = layout.unpack(id);
            bursts.note(&parts);
            *counts.entry((parts.tick, parts.datacenter, parts.worker)).or_default() += 1;
        }
        let found = bursts.counts();
        prop_assert_eq!(found.fullest.map(|fullest| fullest.count), counts.values().max().copied());
        prop_assert!(found.longest_run <= found.used_up);
        if layout.bits(Field::Sequence) > 9 {
            prop_assert_eq!(found.used_up, 0);
        }
    }
}
