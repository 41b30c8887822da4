//! Laws of layouts: every round trip, for every preset and for random layouts, and the edges.

mod common;

use common::layout_of;
use id_gen_core::layout::{Field, Layout, Parts, RangeError};
use id_gen_core::time::US_PER_MS;
use id_gen_core::{inspect, presets};
use proptest::prelude::*;

/// Any layout that can be built: random widths, order, tick and epoch.
fn any_layout() -> impl Strategy<Value = Layout> {
    let order = Just(vec![Field::Datacenter, Field::Worker, Field::Sequence]).prop_shuffle();
    (
        1..=45u32,
        0..=16u32,
        0..=22u32,
        1..=31u32,
        order,
        1..=2000u32,
        any::<bool>(),
        0..4_000_000_000i64,
    )
        .prop_filter_map(
            "does not fit",
            |(time, datacenter, worker, sequence, order, tick_ms, unsigned, epoch_s)| {
                layout_of((time, datacenter, worker, sequence), order, tick_ms, unsigned, epoch_s)
            },
        )
}

fn any_preset() -> impl Strategy<Value = Layout> {
    (0..presets::all().len()).prop_map(|index| presets::all()[index].layout)
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![any_layout(), any_preset()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn unpack_then_pack_gives_the_id_back(layout in layouts(), bits in any::<u64>()) {
        let id = bits >> (64 - layout.total_bits());
        prop_assert_eq!(layout.pack(layout.unpack(id)), id);
        prop_assert_eq!(layout.from_bigint(Layout::to_bigint(id)), Ok(id));
    }

    #[test]
    fn ids_beyond_the_layout_are_refused(layout in layouts(), bits in any::<u64>()) {
        let beyond = layout.total_bits() < 64 && bits >> layout.total_bits() != 0;
        prop_assert_eq!(layout.from_bigint(Layout::to_bigint(bits)).is_err(), beyond);
    }

    #[test]
    fn text_gives_the_layout_back(layout in layouts()) {
        prop_assert_eq!(layout.to_string().parse(), Ok(layout));
    }

    #[test]
    fn positions_and_ids_have_the_same_order(layout in layouts(), a in any::<u64>(), b in any::<u64>(), node in any::<(u32, u32)>()) {
        let node_bits = layout.node_bits(
            (node.0 & layout.max_number(Field::Datacenter)).into(),
            (node.1 & layout.max_number(Field::Worker)).into(),
        ).unwrap();
        let end = layout.first_position(layout.ticks());
        let (a, b) = (a % end, b % end);
        let (id_a, id_b) = (layout.id_at(a, node_bits), layout.id_at(b, node_bits));
        prop_assert_eq!(layout.position_of(id_a), a);
        prop_assert_eq!(a.cmp(&b), id_a.cmp(&id_b));
        prop_assert_eq!(a.cmp(&b), Layout::to_bigint(id_a).cmp(&Layout::to_bigint(id_b)));
        prop_assert!(Layout::to_bigint(id_a) >= 0, "a generated ID must not be negative");
    }

    #[test]
    fn an_id_lies_between_the_bounds_of_its_instant(layout in layouts(), bits in any::<u64>()) {
        let id = bits >> (64 - layout.total_bits());
        let tick = layout.tick_at(layout.created_us(id)).unwrap();
        prop_assert_eq!(tick, layout.unpack(id).tick);
        prop_assert!(layout.min_of(tick) <= id && id <= layout.max_of(tick));
    }

    #[test]
    fn bounds_of_neighbouring_ticks_touch(layout in layouts(), bits in any::<u64>()) {
        let tick = bits % ((1u64 << layout.bits(Field::Time)) - 1);
        prop_assert_eq!(layout.max_of(tick) + 1, layout.min_of(tick + 1));
    }

    #[test]
    fn every_instant_of_a_tick_is_that_tick(layout in layouts(), bits in any::<u64>(), within in any::<u32>()) {
        let tick = bits % (1u64 << layout.bits(Field::Time));
        let within_us = i64::from(within) % (i64::from(layout.tick_ms()) * US_PER_MS);
        let instant = layout.tick_start_ms(tick) * US_PER_MS + within_us;
        prop_assert_eq!(layout.tick_at(instant), Ok(tick));
    }

    #[test]
    fn a_picture_shows_every_bit(layout in layouts(), bits in any::<u64>()) {
        let id = bits >> (64 - layout.total_bits());
        let picture = inspect::inspect(&layout, id);
        let drawn: u64 = layout.fields().iter().fold(0, |drawn, &field| {
            let name = format!("{:11} ", field.name());
            let line = picture.lines().find(|line| line.starts_with(&name)).unwrap();
            let columns = line[name.len()..].split("  ").next().unwrap();
            let digits: String = columns.chars().filter(char::is_ascii_digit).collect();
            assert_eq!(columns.chars().filter(|&c| c != ' ').count() as u32, layout.total_bits());
            (drawn << layout.bits(field)) | u64::from_str_radix(&digits, 2).unwrap()
        });
        prop_assert_eq!(drawn, id);
    }

    #[test]
    fn parsing_never_panics(text in "[ -~]{0,60}") {
        let _ = text.parse::<Layout>();
    }

    #[test]
    fn parsing_almost_layouts_never_panics(
        epoch in "[0-9T:Z.+-]{0,24}(ms)?", tick in "[0-9]{0,12}(ms|s)?", bits in prop::array::uniform4("-?[0-9]{0,11}"),
    ) {
        let [time, datacenter, worker, sequence] = bits;
        let text = format!(
            "epoch={epoch} tick={tick} time:{time} datacenter:{datacenter} worker:{worker} sequence:{sequence}"
        );
        let _ = text.parse::<Layout>();
    }
}

#[test]
fn the_first_and_last_id_of_every_preset() {
    for preset in presets::all() {
        let layout = preset.layout;
        let last_id = u64::MAX >> (64 - layout.total_bits());
        assert_eq!(layout.unpack(0), Parts::default(), "{}", preset.name);
        assert_eq!(layout.created_us(0), layout.epoch_ms() * US_PER_MS);
        assert_eq!(layout.from_bigint(0), Ok(0));
        let last = layout.unpack(last_id);
        assert_eq!(last.tick, (1 << layout.bits(Field::Time)) - 1);
        assert_eq!(u64::from(last.sequence), layout.per_tick() - 1);
        assert_eq!(last.datacenter, layout.max_number(Field::Datacenter));
        assert_eq!(last.worker, layout.max_number(Field::Worker));
        assert_eq!(layout.pack(last), last_id);
        assert_eq!(layout.tick_at(layout.last_ms() * US_PER_MS), Ok(last.tick));
        assert_eq!(layout.from_bigint(Layout::to_bigint(last_id)), Ok(last_id));
    }
}

#[test]
fn instants_just_outside_a_layout_are_refused() {
    for preset in presets::all() {
        let layout = preset.layout;
        let out_of_range =
            Err(RangeError::Instant { first_ms: layout.epoch_ms(), last_ms: layout.last_ms() });
        let (first_us, end_us) =
            (layout.epoch_ms() * US_PER_MS, (layout.last_ms() + 1) * US_PER_MS);
        assert_eq!(layout.tick_at(first_us), Ok(0), "{}", preset.name);
        assert_eq!(layout.tick_at(first_us - 1), out_of_range);
        assert!(layout.tick_at(end_us - 1).is_ok());
        assert_eq!(layout.tick_at(end_us), out_of_range);
        assert_eq!(layout.tick_at(i64::MIN), out_of_range);
        assert_eq!(layout.tick_at(i64::MAX), out_of_range);
    }
}

#[test]
fn sixty_three_bits_stay_positive_and_sixty_four_generate_their_positive_half() {
    for preset in presets::all() {
        let layout = preset.layout;
        let last_generated = layout.max_of(layout.ticks() - 1);
        assert!(Layout::to_bigint(last_generated) > 0, "{}", preset.name);
        if layout.total_bits() == 64 {
            assert!(Layout::to_bigint(layout.min_of(layout.ticks())) < 0, "{}", preset.name);
            assert!(layout.runs_out_ms() < layout.last_ms());
        } else {
            assert_eq!(layout.runs_out_ms(), layout.last_ms() + 1);
            assert!(layout.from_bigint(-1).is_err());
            assert!(layout.from_bigint(i64::MIN).is_err());
        }
    }
}

#[test]
fn javascript_ids_are_safe_integers() {
    let js = presets::by_name("js").unwrap().layout;
    assert_eq!(js.max_of(js.ticks() - 1), (1 << 53) - 1);
}

#[test]
fn a_layout_is_usable_from_its_epoch_until_it_runs_out() {
    for preset in presets::all() {
        let layout = preset.layout;
        assert!(layout.check_at(layout.epoch_ms() - 1).is_err(), "{}", preset.name);
        assert!(layout.check_at(layout.epoch_ms()).is_ok());
        assert!(layout.check_at(layout.runs_out_ms() - 1).is_ok());
        assert!(layout.check_at(layout.runs_out_ms()).is_err());
    }
}

#[test]
fn node_numbers_are_checked_against_their_fields() {
    let layout = presets::by_name("default").unwrap().layout;
    assert!(layout.node_bits(31, 31).is_ok());
    assert!(layout.node_bits(32, 0).is_err());
    assert!(layout.node_bits(0, 32).is_err());
    assert!(layout.node_bits(0, -1).is_err());
    let wide = presets::by_name("wide").unwrap().layout;
    assert!(wide.node_bits(0, 63).is_ok());
    assert!(wide.node_bits(1, 0).is_err(), "wide has no datacenter field");
}

/// Public IDs with a published creation time; see each row's source.
#[test]
fn public_ids_decode_to_their_published_time() {
    #[rustfmt::skip]
    let rows: &[(&str, u64, &str, u32, u32, u32)] = &[
        // Wikipedia, "Snowflake ID": machine 378.
        ("twitter", 1541815603606036480, "2022-06-28T16:07:40.105Z", 11, 26, 0),
        // npm, twitter-snowflake-utils.
        ("twitter", 1101668899018334209, "2019-03-02T02:21:48.201Z", 10, 22, 1),
        // Discord's developer documentation, "Reference".
        ("discord", 175928847299117063, "2016-04-30T11:18:25.796Z", 0, 1, 7),
        // docs.rs, twilight-util, trait Snowflake.
        ("discord", 105484726235607040, "2015-10-19T01:58:38.546Z", 11, 0, 0),
        // Published to the second; shard and sequence are what it decodes to.
        ("instagram", 2384288897814875714, "2020-08-26T13:43:27.313Z", 0, 2675, 578),
        // A port's parity test against sony/sonyflake v1.
        ("sonyflake", 465233541865341384, "2023-06-15T12:00:00Z", 0, 456, 123),
        ("sonyflake", 9176965353308225537, "2188-01-01T00:00:00Z", 0, 1, 1),
    ];
    for &(name, id, created, datacenter, worker, sequence) in rows {
        let layout = presets::by_name(name).unwrap().layout;
        let parts = layout.unpack(id);
        assert_eq!(
            id_gen_core::time::format_ms(layout.tick_start_ms(parts.tick)),
            created,
            "{name} {id}"
        );
        assert_eq!(
            (parts.datacenter, parts.worker, parts.sequence),
            (datacenter, worker, sequence),
            "{name} {id}"
        );
    }
}

#[test]
fn a_tick_beyond_the_clock_in_nanoseconds_is_its_last() {
    let text = "epoch=2023-01-01 tick=10ms time:44 worker:7 sequence:12";
    let layout: Layout = text.parse().unwrap();
    assert_eq!(layout.tick_start_ns(0), 1_672_531_200_000_000_000);
    assert_eq!(layout.tick_start_ns(layout.ticks()), u64::MAX);
    let before_1970: Layout = "epoch=1969-12-31 time:41 sequence:12".parse().unwrap();
    assert_eq!(before_1970.tick_start_ns(0), 0);
}
