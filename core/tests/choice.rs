//! Laws of choosing a kind: every kind is answered for, the order is the one that is promised, and the sizes are those that
//! were measured.

use id_gen_core::choice::{Choice, Kind, Wish, choices};
use id_gen_core::plan::{Requirements, propose};
use id_gen_core::sizes::{ALL, MEASURED, Size};
use proptest::prelude::*;
use serde_json::Value;

/// 2026-07-01T00:00:00Z.
const NOW_MS: i64 = 1_782_864_000_000;

const USUAL: Wish = Wish {
    requirements: Requirements {
        ids_per_second: 10_000,
        servers: 10,
        regions: 1,
        years: 30,
        js_safe: false,
    },
    shards: 0,
    secret: false,
    sortable: true,
    dense: false,
};

fn any_wish() -> impl Strategy<Value = Wish> {
    let requirements = (1..1_000_000_000u64, 1..10_000u64, 1..20u64, 1..300u32, any::<bool>())
        .prop_map(|(ids_per_second, servers, regions, years, js_safe)| Requirements {
            ids_per_second,
            servers,
            regions,
            years,
            js_safe,
        });
    (requirements, prop_oneof![Just(0), 1..100_000u64], any::<[bool; 3]>()).prop_map(
        |(requirements, shards, [secret, sortable, dense])| Wish {
            requirements,
            shards,
            secret,
            sortable,
            dense,
        },
    )
}

fn fitting(wish: &Wish) -> Vec<Kind> {
    choices(wish, NOW_MS)
        .iter()
        .filter(|choice| choice.misfit.is_none())
        .map(|choice| choice.kind)
        .collect()
}

fn reason(wish: &Wish, kind: Kind) -> String {
    kind.choice(wish, NOW_MS).misfit.expect("it does not fit")
}

proptest! {
    #[test]
    fn every_kind_is_answered_for_in_the_promised_order(wish in any_wish()) {
        let found = choices(&wish, NOW_MS);
        prop_assert_eq!(found.len(), Kind::ALL.len());
        prop_assert!(Kind::ALL.iter().all(|kind| found.iter().any(|choice| choice.kind == *kind)));
        let place = |kind| Kind::ALL.iter().position(|each| *each == kind);
        let keys: Vec<_> = found
            .iter()
            .map(|choice| {
                let bytes = choice.kind.size().bytes().round() as u64;
                (choice.misfit.is_some(), bytes, place(choice.kind))
            })
            .collect();
        prop_assert!(keys.is_sorted());
    }

    #[test]
    fn what_fits_meets_every_wish(wish in any_wish()) {
        use Kind::*;
        for Choice { kind, misfit, .. } in choices(&wish, NOW_MS) {
            if misfit.is_none() {
                prop_assert_eq!(kind == SnowflakeOfShard, wish.shards > 0);
                prop_assert!(!wish.secret || matches!(kind, MaskedSnowflake | Uuid4 | RandomId));
                prop_assert!(!wish.sortable || !matches!(kind, Uuid4 | RandomId));
                prop_assert!(!wish.dense || matches!(kind, Ticket | Sequence));
                prop_assert!(!wish.requirements.js_safe || kind != MaskedSnowflake);
            }
        }
    }

    /// What a kind fits, it fits when less is wished.
    #[test]
    fn a_wish_less_leaves_no_kind_out(wish in any_wish()) {
        let less = [
            Wish { secret: false, ..wish },
            Wish { sortable: false, ..wish },
            Wish { dense: false, ..wish },
            Wish { requirements: Requirements { js_safe: false, ..wish.requirements }, ..wish },
        ];
        let before = fitting(&wish);
        for less in less {
            let after = fitting(&less);
            prop_assert!(before.iter().all(|kind| after.contains(kind)));
        }
    }

    #[test]
    fn a_snowflake_is_what_the_layouts_plan_says(wish in any_wish()) {
        let choice = Kind::Snowflake.choice(&wish, NOW_MS);
        match propose(&wish.requirements, NOW_MS) {
            Ok(layout) => {
                prop_assert_eq!(choice.layout, Some(layout));
                prop_assert_eq!(choice.runs_out_ms(&wish, NOW_MS), Some(layout.runs_out_ms()));
                prop_assert!(choice.headroom(&wish) >= Some(1.0));
            }
            Err(none) => {
                prop_assert_eq!(choice.no_layout, Some(none));
                prop_assert!(choice.misfit.is_some());
            }
        }
    }

    /// Servers have numbers among those of shards.
    #[test]
    fn shards_leave_numbers_for_servers(wish in any_wish()) {
        let choice = Kind::SnowflakeOfShard.choice(&wish, NOW_MS);
        if choice.misfit.is_none() {
            let Requirements { servers, regions, .. } = wish.requirements;
            let nodes = choice.layout.expect("it fits").nodes();
            prop_assert!(nodes >= wish.shards + servers * regions);
        }
    }

    /// Counted numbers that fit last for as long as was asked for.
    #[test]
    fn numbers_last(wish in any_wish()) {
        for kind in [Kind::Ticket, Kind::Sequence] {
            let choice = kind.choice(&wish, NOW_MS);
            if choice.misfit.is_none() {
                prop_assert!(choice.headroom(&wish) >= Some(1.0));
                let years_ms = i64::from(wish.requirements.years) * 31_556_952_000;
                prop_assert!(choice.runs_out_ms(&wish, NOW_MS).is_none_or(|end| end >= NOW_MS + years_ms));
            }
        }
    }
}

#[test]
fn the_first_for_each_wish() {
    let alone = Requirements { servers: 1, ..USUAL.requirements };
    let first = |wish: Wish| fitting(&wish)[0];
    assert_eq!(first(USUAL), Kind::Snowflake);
    assert_eq!(first(Wish { secret: true, ..USUAL }), Kind::MaskedSnowflake);
    assert_eq!(first(Wish { shards: 500, ..USUAL }), Kind::SnowflakeOfShard);
    assert_eq!(first(Wish { dense: true, sortable: false, ..USUAL }), Kind::Ticket);
    assert_eq!(first(Wish { dense: true, requirements: alone, ..USUAL }), Kind::Sequence);
    let in_js = Requirements { js_safe: true, ..USUAL.requirements };
    assert_eq!(
        first(Wish { secret: true, sortable: false, requirements: in_js, ..USUAL }),
        Kind::Uuid4
    );
    // Too many for 53 bits, and for the random bits of UUIDs.
    let much = Requirements {
        ids_per_second: 1_000_000,
        servers: 64,
        js_safe: true,
        ..USUAL.requirements
    };
    assert_eq!(fitting(&Wish { requirements: much, ..USUAL }), []);
    assert_eq!(fitting(&Wish { dense: true, ..USUAL }), []);
}

#[test]
fn reasons() {
    let said = |wish: Wish, kind, text: &str| assert_eq!(reason(&wish, kind), text);
    said(USUAL, Kind::SnowflakeOfShard, "No shards were requested.");
    said(
        USUAL,
        Kind::Ticket,
        "New IDs do not sort after older ones of other servers.\nIf that is acceptable: sortable => false",
    );
    said(
        USUAL,
        Kind::Uuid4,
        "New IDs do not sort after old ones.\nIf that is acceptable: sortable => false",
    );
    let in_js = Requirements { js_safe: true, ..USUAL.requirements };
    said(
        Wish { secret: true, requirements: in_js, ..USUAL },
        Kind::MaskedSnowflake,
        "A masked ID needs 64 bits; a number in JavaScript has 53.\nIf JavaScript can read it as text: js_safe => false",
    );
    said(
        Wish { shards: 81_921, ..USUAL },
        Kind::SnowflakeOfShard,
        "A server can have at most 8,192 shards.",
    );
    said(
        Wish { shards: 9, secret: true, ..USUAL },
        Kind::Uuid7,
        "You asked for shards; IDs of this kind contain none.",
    );
    said(Wish { secret: true, ..USUAL }, Kind::Snowflake, "An ID reveals its time and its server.");
    said(Wish { dense: true, ..USUAL }, Kind::Snowflake, "The IDs have gaps.");
    let many = Requirements { servers: 501, regions: 2, ..USUAL.requirements };
    said(
        Wish { sortable: false, requirements: many, ..USUAL },
        Kind::Sequence,
        "Sequences can be divided among at most 1,000 servers.",
    );
    let years = Requirements { years: 3000, js_safe: true, ..USUAL.requirements };
    said(
        Wish { sortable: false, requirements: years, ..USUAL },
        Kind::Ticket,
        "There are 9,007,199,254,740,991 IDs; 9,467,085,600,000,000 are needed.",
    );
    let much = Requirements {
        ids_per_second: 1_000_000_000,
        servers: 1000,
        years: 300,
        ..USUAL.requirements
    };
    for kind in [Kind::Uuid4, Kind::Uuid7, Kind::Uuid7Ordered, Kind::Ulid, Kind::TypeId] {
        said(
            Wish { sortable: false, requirements: much, ..USUAL },
            kind,
            "Too many random IDs: two of them are equal\nwith a probability of 100 %; at most 0.0001 % is proposed.",
        );
    }
    // With servers of their own, those in order differ by their moments, as far as there are some.
    let alone = Requirements { servers: 1, ..much };
    assert_eq!(
        Kind::Uuid7Ordered.choice(&Wish { requirements: alone, ..USUAL }, NOW_MS).misfit,
        None
    );
    let too_much = Requirements { ids_per_second: 1_000_000_000_000, ..alone };
    said(
        Wish { requirements: too_much, ..USUAL },
        Kind::Uuid7Ordered,
        "A server generates at most 1,048,576,000 IDs per second.",
    );
    let ages = Requirements { years: 100_000, ids_per_second: 1, ..alone };
    said(
        Wish { requirements: ages, ..USUAL },
        Kind::Uuid7,
        "The time field ends in the year 10889.",
    );
    said(
        Wish { requirements: ages, ..USUAL },
        Kind::Ulid,
        "The time field ends in the year 10889.",
    );
    said(
        Wish { requirements: ages, ..USUAL },
        Kind::Uuid7Ordered,
        "The time field ends in the year 2527.",
    );
}

/// The benchmark's figures, as it shows them.
fn measured() -> Vec<(String, f64, f64)> {
    let path = format!("{}/../{MEASURED}", env!("CARGO_MANIFEST_DIR"));
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("a report")).expect("JSON");
    let sections = report["sections"].as_array().expect("sections");
    let section = sections
        .iter()
        .find(|section| {
            section["title"].as_str().is_some_and(|title| title.starts_with("Bytes per row"))
        })
        .expect("sizes were measured");
    let cell =
        |row: &Value, place: usize| row[place].as_str().expect("text").trim_matches('`').to_owned();
    let number = |row: &Value, place| cell(row, place).parse().expect("a number");
    section["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (cell(row, 0), number(row, 1), number(row, 2)))
        .collect()
}

#[test]
fn sizes_are_those_that_were_measured() {
    let here: Vec<_> =
        ALL.iter().map(|&Size { name, table, index }| (name.to_owned(), table, index)).collect();
    assert_eq!(here, measured(), "core/src/sizes.rs has other figures than {MEASURED}");
}
