//! Laws of the reservation: its file says exactly what was written or is refused, and a allocator never
//! begins below an ID that may exist.

use id_gen_core::allocator::{Allocator, RESERVE_AHEAD_MS};
use id_gen_core::clock::ClockReading;
use id_gen_core::directory::{Directory, Origin};
use id_gen_core::fleet::{ActiveGrant, Number};
use id_gen_core::frontier::{ClaimSize, SequenceStart};
use id_gen_core::identity::Identity;
use id_gen_core::kept_file::{Damage, Flaw, Place};
use id_gen_core::layout::{Field, Layout};
use id_gen_core::lead::LeadLimit;
use id_gen_core::originals::{Claim, Original, Originals};
use id_gen_core::presets;
use id_gen_core::replicated::{self, Bound, Replayed};
use id_gen_core::reservation::{Record, RecordedNode};
use id_gen_core::startup::{
    self, Assignment, Granted, StartupContext, StartupError, StoredRecord, UNSEEN_CLOCK_MARGIN_MS,
};
use proptest::prelude::*;

const NOW_MS: i64 = 1_795_000_000_000;
/// As many numbers of others as a record lists, at least.
const MOST_ORIGINALS: usize = 16;
const NODE: Identity = Identity { worker: Some(7), ..Identity::NONE };
const LOG_POSITION: u64 = 0x16_B374_D848;
const DIRECTORY: Directory =
    Directory { inode: 394_021, created_ns: Some(1_790_000_000_123_456_789) };
const OTHER_DIRECTORY: Directory =
    Directory { inode: 394_022, created_ns: Some(1_794_000_000_000_000_001) };
const THIRD_DIRECTORY: Directory =
    Directory { inode: 394_023, created_ns: Some(1_794_000_000_000_000_002) };
const FILE: Directory = Directory { inode: 394_025, created_ns: Some(1_790_000_003_000_000_000) };
const ORIGIN: Origin = Origin { directory: DIRECTORY, file: Some(FILE) };
const OTHER_ORIGIN: Origin = Origin { directory: OTHER_DIRECTORY, ..ORIGIN };
const PLACE: Place =
    Place { system_identifier: 7_710_208_234_434_893_832, timeline: 1, origin: ORIGIN };
const NUMBER: Number = Number { datacenter: 1, worker: 7 };

fn layout(name: &str) -> Layout {
    presets::by_name(name).map_or_else(|| name.parse().unwrap(), |preset| preset.layout)
}

fn clock(wall_ms: i64, mono_ms: u64) -> ClockReading {
    ClockReading { wall_ns: wall_ms.cast_unsigned() * 1_000_000, mono_ns: mono_ms * 1_000_000 }
}

fn record() -> Record {
    Record {
        place: PLACE,
        layout: layout("default"),
        until_ms: NOW_MS + RESERVE_AHEAD_MS,
        boot: 42,
        clock: clock(NOW_MS, 5_000),
        server_start_us: Some(NOW_MS * 1_000 - 5_000_000),
        node: Some(RecordedNode { worker: 7, datacenter: 1, granted_until_ms: None }),
        log_position: LOG_POSITION,
        originals: Originals::NONE,
    }
}

fn context() -> StartupContext {
    StartupContext {
        system_identifier: PLACE.system_identifier,
        timeline: PLACE.timeline,
        layout: layout("default"),
        boot: 42,
        clock: clock(NOW_MS + 500, 5_500),
        last_replayed_ms: None,
        replayed: None,
        max_lead_ms: 5_000,
        upgraded_ms: None,
        origin: Some(ORIGIN),
        assignment: Assignment::Manual(Some(NUMBER)),
        is_for_tests: false,
        is_only_copy: false,
    }
}

/// A bound of a server with the number of [`record`]'s, in another directory.
fn bound(until_ms: i64) -> Bound {
    Bound {
        claim: Claim::Assigned,
        system_identifier: PLACE.system_identifier,
        until_ms,
        layout: layout("default"),
        number: Some(NUMBER),
        directory: THIRD_DIRECTORY,
    }
}

/// The same, logged after the file of [`record`] was written.
fn logged_later(until_ms: i64) -> Option<Replayed> {
    Some(Replayed { bound: bound(until_ms), log_position: LOG_POSITION + 1, timeline: 1 })
}

fn numbered(worker: u32) -> Assignment {
    Assignment::Manual(Some(Number { worker, ..NUMBER }))
}

fn first_ms(stored: &StoredRecord, context: &StartupContext) -> i64 {
    startup::start_point(stored, context).unwrap().first_ms
}

fn any_claim() -> impl Strategy<Value = Claim> {
    prop::sample::select(vec![Claim::Assigned, Claim::Granted, Claim::Accepted])
}

fn any_record() -> impl Strategy<Value = Record> {
    let numbers = (any::<u64>(), any::<u32>(), any::<i64>(), any::<u128>(), any::<(u64, u64)>());
    let node = any::<Option<(u32, u32, Option<i64>)>>();
    let place = any::<(u64, (u64, Option<u64>), Option<(u64, Option<u64>)>)>();
    let original = (any::<(u32, u32)>(), 0..presets::all().len(), any_claim());
    // One more than there is room for.
    let originals = prop::collection::vec(original, 0..=MOST_ORIGINALS + 1);
    let found = |(inode, created_ns)| Directory { inode, created_ns };
    (numbers, any::<Option<i64>>(), node, place, 0..presets::all().len(), originals).prop_map(
        move |(
            (system_identifier, timeline, until_ms, boot, (wall_ns, mono_ns)),
            server_start_us,
            node,
            (log_position, directory, file),
            preset,
            originals,
        )| Record {
            place: Place {
                system_identifier,
                timeline,
                origin: Origin { directory: found(directory), file: file.map(found) },
            },
            layout: presets::all()[preset].layout,
            until_ms,
            boot,
            clock: ClockReading { wall_ns, mono_ns },
            server_start_us,
            node: node.map(|(worker, datacenter, granted_until_ms)| RecordedNode {
                worker,
                datacenter,
                granted_until_ms,
            }),
            log_position,
            originals: originals.into_iter().fold(
                Originals::NONE,
                |all, ((datacenter, worker), preset, claim)| {
                    let layout = presets::all()[preset].layout;
                    let number = Number { datacenter, worker };
                    all.with(Original { layout, number }, claim)
                },
            ),
        },
    )
}

/// The record, as one of another cluster, timeline or directory.
fn of(place: Place) -> Record {
    Record { place, ..record() }
}

proptest! {
    #[test]
    fn a_file_gives_its_record_back(record in any_record()) {
        prop_assert_eq!(Record::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Record::decode(&bytes).is_err());
    }

    #[test]
    fn any_text_after_the_magic_is_read_without_a_panic(text in "[ -~\n]{0,200}") {
        let file = format!("id_gen reservation {text}");
        prop_assert!(Record::decode(file.as_bytes()).is_err());
    }

    #[test]
    fn an_allocator_begins_at_or_above_what_was_reserved(
        until_ms in NOW_MS - 10_000_000..NOW_MS + 10_000_000, preset in 0..presets::all().len(),
    ) {
        let layout = presets::all()[preset].layout;
        prop_assume!(layout.check_at(until_ms + 2_000).is_ok());
        let record = Record { until_ms, layout, ..record() };
        let start = startup::start_point(&StoredRecord::Found(record), &StartupContext { layout, ..context() }).unwrap();
        let allocator = Allocator::new(&layout, &start);
        prop_assert!(layout.tick_start_ms(layout.tick_of(allocator.frontier().position())) >= until_ms);
        prop_assert_eq!(allocator.reserved_end(), allocator.frontier().position());
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = record().encode();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let read = Record::decode(&damaged);
        // The case of a hexadecimal digit of the checksum is the one bit that says nothing.
        assert!(read.is_err() || read == Ok(record()), "bit {bit}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let bytes = record().encode();
    for length in 0..bytes.len() {
        assert!(Record::decode(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
    let mut longer = bytes;
    longer.push(b'\n');
    assert!(Record::decode(&longer).is_err(), "a byte too many");
}

#[test]
fn what_is_wrong_is_named() {
    assert_eq!(Record::decode(b""), Err(Flaw::Empty.into()));
    assert_eq!(Record::decode(b"something else altogether"), Err(Flaw::NoName.into()));
    assert_eq!(Record::decode(b"id_gen reservation 0\n"), Err(Flaw::NoVersion.into()));
    let newer = Err(Damage::Newer { found: 2, known: 1 });
    assert_eq!(Record::decode(b"id_gen reservation 2\n"), newer);
    assert_eq!(Record::decode(b"id_gen reservation 1\n"), Err(Flaw::CutShort.into()));
    let other = String::from_utf8(record().encode()).unwrap().replacen("until ", "bound ", 1);
    let body = other.split_once("crc32").unwrap().0;
    let closed = format!("{body}crc32 {:08x}\n", crc32fast::hash(body.as_bytes()));
    assert_eq!(Record::decode(closed.as_bytes()), Err(Flaw::Line.into()));
}

#[test]
fn a_new_server_begins_at_its_clock() {
    assert_eq!(first_ms(&StoredRecord::Absent, &context()), i64::MIN);
}

#[test]
fn a_restart_begins_at_the_reservation() {
    assert_eq!(first_ms(&StoredRecord::Found(record()), &context()), record().until_ms);
}

#[test]
fn a_lost_or_foreign_record_stops_everything() {
    assert_eq!(startup::start_point(&StoredRecord::Lost, &context()), Err(StartupError::Lost));
    let foreign = of(Place { system_identifier: 1, ..PLACE });
    let number = foreign.number();
    let foreign = StoredRecord::Found(foreign);
    let other_system = Err(StartupError::OtherSystem { found: 1, number });
    assert_eq!(startup::start_point(&foreign, &context()), other_system);
    // As of any copy, by another number, or when a superuser says that it is the only one.
    let another = Assignment::Manual(Some(Number { datacenter: 0, worker: 9 }));
    for context in [
        StartupContext { assignment: another, ..context() },
        StartupContext { is_only_copy: true, ..context() },
    ] {
        assert!(first_ms(&foreign, &context) >= record().until_ms);
    }
}

#[test]
fn a_promoted_server_begins_above_every_clock_it_knows() {
    let promoted = StartupContext { timeline: 2, ..context() };
    let above = i64::from(promoted.max_lead_ms) + UNSEEN_CLOCK_MARGIN_MS;
    let record = StoredRecord::Found(record());
    assert_eq!(first_ms(&record, &promoted), NOW_MS + 500 + above);
    let behind = StartupContext { last_replayed_ms: Some(NOW_MS + 2_500), ..promoted };
    assert_eq!(first_ms(&record, &behind), NOW_MS + 2_500 + above);
    let far_behind = StartupContext { clock: clock(NOW_MS - 3_600_000, 5_500), ..promoted };
    assert_eq!(first_ms(&record, &far_behind), NOW_MS + RESERVE_AHEAD_MS);
    assert_eq!(first_ms(&StoredRecord::Absent, &promoted), NOW_MS + 500 + above);
}

proptest! {
    #[test]
    fn what_standbys_get_is_what_was_written(
        until_ms in any::<i64>(), number in any::<Option<(u32, u32)>>(), inode in any::<u64>(),
        created_ns in any::<Option<u64>>(), claim in any_claim(), bit in 0..replicated::SIZE * 8,
    ) {
        let number = number.map(|(datacenter, worker)| Number { datacenter, worker });
        let directory = Directory { inode, created_ns };
        let bound = Bound { number, claim, directory, ..bound(until_ms) };
        let mut bytes = bound.encode();
        prop_assert_eq!(Bound::decode(&bytes), Some(bound));
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Bound::decode(&bytes), None);
    }

    /// Whatever its own clocks and settings say, and whatever file it has of the old primary.
    #[test]
    fn a_promoted_server_begins_at_or_above_what_it_replayed(
        by_ms in -10_000_000i64..10_000_000, copied in any::<bool>(), copied_by_ms in -10_000_000i64..0,
        log_position in any::<u64>(),
    ) {
        let replayed_ms = NOW_MS + by_ms;
        let replayed = Some(Replayed { bound: bound(replayed_ms), log_position, timeline: 1 });
        let promoted = StartupContext { timeline: 2, replayed, ..context() };
        let stored = if copied {
            StoredRecord::Found(Record { until_ms: replayed_ms + copied_by_ms, ..record() })
        } else {
            StoredRecord::Absent
        };
        let without = first_ms(&stored, &StartupContext { replayed: None, ..promoted });
        prop_assert_eq!(first_ms(&stored, &promoted), without.max(replayed_ms));
    }

    /// Whichever of them is the highest, and wherever the file was written.
    #[test]
    fn a_start_on_the_same_timeline_is_above_every_source(
        file_by_ms in -1_000_000i64..1_000_000,
        replayed_by_ms in proptest::option::of(-1_000_000i64..1_000_000),
        committed_by_ms in proptest::option::of(-1_000_000i64..1_000_000),
        upgraded_by_ms in proptest::option::of(-1_000_000i64..1_000_000),
        is_elsewhere in any::<bool>(),
    ) {
        let start = StartupContext {
            replayed: replayed_by_ms.and_then(|by_ms| logged_later(NOW_MS + by_ms)),
            last_replayed_ms: committed_by_ms.map(|by_ms| NOW_MS + by_ms),
            upgraded_ms: upgraded_by_ms.map(|by_ms| NOW_MS + by_ms),
            origin: Some(if is_elsewhere { OTHER_ORIGIN } else { ORIGIN }),
            is_only_copy: true,
            ..context()
        };
        let is_copy = is_elsewhere || replayed_by_ms.is_some();
        let margin_ms = i64::from(start.max_lead_ms) + UNSEEN_CLOCK_MARGIN_MS;
        let stored = StoredRecord::Found(Record { until_ms: NOW_MS + file_by_ms, ..record() });
        let sources = [
            Some(NOW_MS + file_by_ms),
            start.replayed.map(|replayed| replayed.bound.until_ms),
            start.last_replayed_ms.map(|ms| ms + margin_ms),
            start.upgraded_ms.map(|ms| ms + margin_ms),
            is_copy.then_some(start.clock.wall_ms() + margin_ms),
        ];
        prop_assert_eq!(Some(first_ms(&stored, &start)), sources.into_iter().flatten().max());
    }
}

#[test]
fn bytes_that_standbys_did_not_get_say_nothing() {
    assert_eq!(Bound::decode(&[0; replicated::SIZE]), None);
    assert_eq!(Bound::decode(&[0xff; replicated::SIZE]), None);
}

#[test]
fn a_server_without_a_record_that_replayed_one_of_its_timeline_is_refused_as_a_copy() {
    let until_ms = NOW_MS + 9_000;
    let copy = StartupContext { replayed: logged_later(until_ms), ..context() };
    let system_identifier = PLACE.system_identifier;
    let number = Some(NUMBER);
    let refused = StartupError::ReservedByAnother { system_identifier, timeline: 1, number };
    assert_eq!(startup::start_point(&StoredRecord::Absent, &copy), Err(refused));
    let other = StartupContext { assignment: numbered(8), ..copy };
    assert!(startup::start_point(&StoredRecord::Absent, &other).is_ok());
    assert!(
        startup::originals(None, &other, Originals::NONE, None)
            .iter()
            .any(|(it, _)| it.number == NUMBER)
    );
    let confirmed = StartupContext { is_only_copy: true, ..copy };
    assert_eq!(first_ms(&StoredRecord::Absent, &confirmed), until_ms);
    let low = StartupContext { replayed: logged_later(NOW_MS), ..confirmed };
    let above_clocks = startup::above_clocks(&low).first_ms;
    assert_eq!(first_ms(&StoredRecord::Absent, &low), above_clocks, "what was not logged");
    let of_fleet = StartupContext { assignment: Assignment::Registry, ..copy };
    assert!(startup::start_point(&StoredRecord::Absent, &of_fleet).is_ok());
}

#[test]
fn a_cluster_that_was_made_of_a_standby_is_refused_as_a_copy() {
    let bound = Bound { system_identifier: 1, ..bound(NOW_MS) };
    let replayed = logged_later(NOW_MS).map(|logged| Replayed { bound, ..logged });
    // `pg_createsubscriber` promotes it, too.
    let made = StartupContext { timeline: 2, replayed, ..context() };
    let number = Some(NUMBER);
    let refused = StartupError::ReservedByAnother { system_identifier: 1, timeline: 1, number };
    assert_eq!(startup::start_point(&StoredRecord::Absent, &made), Err(refused));
    let confirmed = StartupContext { is_only_copy: true, ..made };
    assert!(startup::start_point(&StoredRecord::Absent, &confirmed).is_ok());
    for timeline in [1, 2] {
        let own = StoredRecord::Found(of(Place { timeline, ..PLACE }));
        assert!(startup::start_point(&own, &made).is_ok(), "its own, or its primary's reservation");
    }
    let carried = StoredRecord::Found(of(Place { system_identifier: 1, ..PLACE }));
    let refused = StartupError::OtherSystem { found: 1, number: Some(NUMBER) };
    assert_eq!(startup::start_point(&carried, &made), Err(refused));
    let other = StartupContext { assignment: numbered(8), ..made };
    assert!(startup::start_point(&carried, &other).is_ok());
}

#[test]
fn a_standby_that_followed_a_promotion_is_refused_unless_it_is_promoted() {
    let followed = |timeline, logged_on| StartupContext {
        timeline,
        replayed: logged_later(NOW_MS).map(|logged| Replayed { timeline: logged_on, ..logged }),
        origin: Some(OTHER_ORIGIN),
        ..context()
    };
    for origin in [ORIGIN, OTHER_ORIGIN] {
        let stored = StoredRecord::Found(of(Place { origin, ..PLACE }));
        let start = |context| startup::start_point(&stored, &context);
        let system_identifier = PLACE.system_identifier;
        let number = Some(NUMBER);
        let refused = StartupError::ReservedByAnother { system_identifier, timeline: 2, number };
        assert_eq!(start(followed(2, 2)), Err(refused), "its signal file was removed");
        assert!(start(StartupContext { is_only_copy: true, ..followed(2, 2) }).is_ok());
        assert!(start(followed(2, 1)).is_ok(), "promoted to timeline 2");
        assert!(start(followed(3, 2)).is_ok(), "promoted to timeline 3");
    }
    let place = Place { timeline: 2, origin: OTHER_ORIGIN, ..PLACE };
    let bound = Bound { directory: OTHER_DIRECTORY, ..bound(NOW_MS) };
    let replayed = followed(2, 2).replayed.map(|logged| Replayed { bound, ..logged });
    let crashed = StartupContext { replayed, ..followed(2, 2) };
    let own = StoredRecord::Found(of(place));
    assert!(startup::start_point(&own, &crashed).is_ok(), "its own reservation");
}

/// A superuser may have lowered a bound that was replayed before.
#[test]
fn what_was_replayed_before_the_timeline_of_a_file_stays_accounted_for() {
    let until_ms = NOW_MS + 3_600_000;
    let first = |timeline, record: Record| {
        let context = StartupContext { timeline, replayed: logged_later(until_ms), ..context() };
        first_ms(&StoredRecord::Found(record), &context)
    };
    let promoted = of(Place { timeline: 2, ..PLACE });
    assert_eq!(first(2, promoted.clone()), promoted.until_ms);
    assert!(first(3, promoted) < until_ms, "promoted again");
    let of_other = of(Place { timeline: 2, origin: OTHER_ORIGIN, ..PLACE });
    assert_eq!(first(3, of_other), until_ms);
    assert_eq!(first(2, record()), until_ms, "of the old primary");
}

#[test]
fn a_file_takes_precedence_over_what_was_logged_before_it() {
    let until_ms = NOW_MS + 3_600_000;
    let first = |log_position, record: Record| {
        let replayed = Some(Replayed { bound: bound(until_ms), log_position, timeline: 1 });
        // Another server has logged it.
        let context = StartupContext { replayed, is_only_copy: true, ..context() };
        first_ms(&StoredRecord::Found(record), &context)
    };
    for log_position in [LOG_POSITION - 1, LOG_POSITION] {
        assert_eq!(first(log_position, record()), record().until_ms);
    }
    assert_eq!(first(LOG_POSITION + 1, record()), until_ms);
    // Its own, of before a crash in which the log lost the lower bound of the file.
    let own = Bound { directory: DIRECTORY, ..bound(until_ms) };
    let replayed = logged_later(until_ms).map(|logged| Replayed { bound: own, ..logged });
    let crashed = StartupContext { replayed, ..context() };
    assert_eq!(first_ms(&StoredRecord::Found(record()), &crashed), record().until_ms);
    // Another cluster's log is another line.
    let upgraded = StartupContext {
        timeline: 2,
        replayed: Some(Replayed {
            bound: bound(until_ms),
            log_position: LOG_POSITION,
            timeline: 1,
        }),
        upgraded_ms: Some(NOW_MS - 60_000),
        ..context()
    };
    let carried = StoredRecord::Found(of(Place { system_identifier: 1, ..PLACE }));
    assert_eq!(first_ms(&carried, &upgraded), until_ms);
}

#[test]
fn a_copy_with_the_worker_id_of_its_original_is_refused() {
    let copy = StartupContext { origin: Some(OTHER_ORIGIN), ..context() };
    let stored = StoredRecord::Found(record());
    let refused =
        StartupError::Copied { number: Some(NUMBER), original: DIRECTORY, copy: OTHER_DIRECTORY };
    assert_eq!(startup::start_point(&stored, &copy), Err(refused));
    let is_let_in = |stored: StoredRecord, context: StartupContext| {
        startup::start_point(&stored, &context).is_ok()
    };
    for other in [Number { worker: 8, ..NUMBER }, Number { datacenter: 2, ..NUMBER }] {
        let assignment = Assignment::Manual(Some(other));
        assert!(is_let_in(stored.clone(), StartupContext { assignment, ..copy }), "{other:?}");
    }
    // A server that has started is not checked again when it gets a number.
    let without = StartupContext { assignment: Assignment::Manual(None), ..copy };
    assert_eq!(startup::start_point(&stored, &without), Err(refused));
    let of_fleet = StartupContext { assignment: Assignment::Registry, ..copy };
    assert!(is_let_in(stored.clone(), of_fleet));
    let unnumbered = StoredRecord::Found(Record { node: None, ..record() });
    let refused = StartupError::Copied { number: None, original: DIRECTORY, copy: OTHER_DIRECTORY };
    assert_eq!(startup::start_point(&unnumbered, &copy), Err(refused));
    assert!(is_let_in(stored.clone(), StartupContext { is_for_tests: true, ..copy }));
    assert!(is_let_in(stored.clone(), StartupContext { timeline: 2, ..copy }), "promoted");
    assert!(is_let_in(stored.clone(), StartupContext { is_only_copy: true, ..copy }));
    let carried = of(Place { system_identifier: 1, ..PLACE });
    let upgraded = StartupContext { upgraded_ms: Some(NOW_MS - 60_000), ..copy };
    assert!(is_let_in(StoredRecord::Found(carried), upgraded), "filled by pg_upgrade");
    let granted = startup::granted_start_point(&stored, &copy, granted(8, NOW_MS));
    assert_eq!(granted.map(|start| start.first_ms), Ok(NOW_MS), "a member of a fleet");
}

#[test]
fn a_copy_stays_one_of_all_its_originals() {
    let mut stored = record();
    for worker in 8..8 + 16 {
        let copy = StartupContext {
            origin: Some(OTHER_ORIGIN),
            assignment: numbered(worker),
            ..context()
        };
        assert_eq!(startup::check_copy(Some(&stored), &copy), Ok(()), "{worker}");
        let originals = startup::originals(Some(&stored), &copy, Originals::NONE, None);
        let node = Some(RecordedNode { worker, datacenter: 1, granted_until_ms: None });
        stored = Record { originals, node, ..record() };
        // In its own directory, it has any number but those of its originals.
        for other in 0..=31 {
            let own = StartupContext { assignment: numbered(other), ..context() };
            let refused = startup::check_copy(Some(&stored), &own).err();
            let is_original = (7..worker).contains(&other);
            let number = Number { worker: other, ..NUMBER };
            assert_eq!(refused, is_original.then_some(StartupError::CopiedBefore { number }));
            let only = StartupContext { is_only_copy: true, ..own };
            assert_eq!(startup::check_copy(Some(&stored), &only), Ok(()));
            let accepted = startup::originals(Some(&stored), &only, Originals::NONE, Some(number));
            for each in 0..=31 {
                let layout = own.layout;
                let each = Original { layout, number: Number { worker: each, ..NUMBER } };
                let expected = originals.refuse(each).filter(|_| each.number != number);
                assert_eq!(accepted.refuse(each), expected, "one is this server's, no other");
            }
            let of_fleet = StartupContext { assignment: Assignment::Registry, ..own };
            assert_eq!(startup::check_copy(Some(&stored), &of_fleet), Ok(()));
        }
    }
    // There is no room for one more: any number may be that one's, until it is confirmed.
    let copy = StartupContext { origin: Some(OTHER_ORIGIN), assignment: numbered(31), ..context() };
    let number = Number { worker: 31, ..NUMBER };
    let refused = Err(StartupError::CopiedBefore { number });
    assert_eq!(startup::check_copy(Some(&stored), &copy), refused);
    let originals = startup::originals(Some(&stored), &copy, Originals::NONE, Some(number));
    stored = Record { originals, ..record() };
    let own = StartupContext { assignment: numbered(31), ..context() };
    assert_eq!(startup::check_copy(Some(&stored), &own), Ok(()));
    let other = StartupContext { assignment: numbered(30), ..own };
    assert!(startup::check_copy(Some(&stored), &other).is_err());
}

/// One without a line may have any number. But what a registry has granted, it knows.
#[test]
fn an_original_without_a_line_stays_refused() {
    let original =
        |worker| Original { layout: record().layout, number: Number { worker, ..NUMBER } };
    let numbers = || 0..MOST_ORIGINALS as u32;
    let (full, next) = (
        |claim| numbers().fold(Originals::NONE, |all, it| all.with(original(it), claim)),
        original(20),
    );
    for claim in [Claim::Granted, Claim::Assigned, Claim::Accepted] {
        assert_eq!(full(claim).has_more, None);
        let assigned = full(claim).with(next, Claim::Assigned);
        assert_eq!(assigned.refuse_grant(next), Some(next.number), "{claim:?}");
        let accepted = full(claim).accept(next).with(next, Claim::Accepted);
        assert_eq!((accepted.refuse(next), accepted.refuse_grant(next)), (None, None));
        for own in numbers().map(original).filter(|own| !accepted.is_accepted(*own)) {
            assert!(accepted.refuse(own).is_some(), "{claim:?} {own:?}");
            let is_granted = accepted.refuse_grant(own).is_none();
            assert_eq!(is_granted, claim == Claim::Granted, "{claim:?} {own:?}");
        }
        for originals in [assigned, accepted] {
            let stored = Record { originals, ..record() };
            assert_eq!(Record::decode(&stored.encode()), Ok(stored));
        }
    }
}

/// What a superuser says of one directory is said of no copy of it, however that starts.
#[test]
fn what_was_confirmed_for_a_server_is_refused_to_its_copies() {
    let original = Original { layout: record().layout, number: NUMBER };
    let originals = Originals::NONE.with(original, Claim::Assigned).accept(original);
    let stored = Record { originals, ..record() };
    assert_eq!(startup::check_copy(Some(&stored), &context()), Ok(()));
    for (assignment, is_for_tests) in
        [(numbered(8), false), (Assignment::Registry, false), (numbered(7), true)]
    {
        let origin = Some(OTHER_ORIGIN);
        let copy = StartupContext { origin, assignment, is_for_tests, ..context() };
        let originals = startup::originals(Some(&stored), &copy, Originals::NONE, None);
        assert_eq!(originals.refuse(original), Some(NUMBER), "{assignment:?}");
    }
}

/// A member of a fleet and a server for tests generate with a number that nobody has compared.
#[test]
fn a_number_that_ids_were_made_with_is_not_confirmed_by_that() {
    let original = Original { layout: record().layout, number: NUMBER };
    let originals = Originals::NONE.with(original, Claim::Assigned);
    let stored = Record { originals, ..record() };
    let refused = Err(StartupError::CopiedBefore { number: NUMBER });
    assert_eq!(startup::check_copy(Some(&stored), &context()), refused);
    let layout = layout("epoch=2024-01-01 tick=1ms time:41 worker:10 sequence:12");
    let other = Record { layout, ..stored.clone() };
    let number = Number { datacenter: 0, worker: (NUMBER.datacenter << 5) | NUMBER.worker };
    let assignment = Assignment::Manual(Some(number));
    let relaid = StartupContext { layout, assignment, ..context() };
    let made = other.node.map(|node| RecordedNode {
        worker: number.worker,
        datacenter: number.datacenter,
        ..node
    });
    assert!(startup::check_copy(Some(&Record { node: made, ..other }), &relaid).is_err());
    // Nor is the number of the server that left a file which a fleet granted it to.
    let node = stored.node.map(|node| RecordedNode { granted_until_ms: Some(NOW_MS), ..node });
    let member = Record { node, originals: Originals::NONE, ..stored };
    let copy = StartupContext { origin: Some(OTHER_ORIGIN), assignment: numbered(8), ..context() };
    let of_copy = startup::originals(Some(&member), &copy, Originals::NONE, None);
    assert_eq!(of_copy.refuse(original), Some(NUMBER));
    assert_eq!(of_copy.refuse_grant(original), None, "a fleet may grant it again");
    assert_eq!(originals.refuse_grant(original), Some(NUMBER));
    // Nor one that its original got outside of the fleet after it had left that file.
    let standby = StartupContext { replayed: logged_later(NOW_MS), ..copy };
    let of_standby = startup::originals(Some(&member), &standby, Originals::NONE, None);
    assert_eq!(of_standby.refuse_grant(original), Some(NUMBER));
}

/// A standby is promoted to what its primary was, although its file is older.
#[test]
fn a_standby_has_the_number_that_was_confirmed_on_its_primary_since_it_was_made() {
    let original = Original { layout: record().layout, number: NUMBER };
    let originals = Originals::NONE.with(original, Claim::Assigned);
    let stored = Record { originals, ..record() };
    // Whichever server logged it.
    let by_primary = Bound { claim: Claim::Accepted, ..bound(NOW_MS) };
    let promoted = StartupContext {
        timeline: 2,
        origin: Some(OTHER_ORIGIN),
        replayed: logged_later(NOW_MS).map(|it| Replayed { bound: by_primary, ..it }),
        ..context()
    };
    assert_eq!(startup::check_copy(Some(&stored), &promoted), Ok(()));
    for by_other in [
        Bound { number: None, ..by_primary },
        Bound { claim: Claim::Granted, ..by_primary },
        Bound { claim: Claim::Assigned, ..by_primary },
    ] {
        let replayed = promoted.replayed.map(|it| Replayed { bound: by_other, ..it });
        let refused = StartupContext { replayed, ..promoted };
        assert!(startup::check_copy(Some(&stored), &refused).is_err(), "{by_other:?}");
    }
}

/// A server does not write what it logs into the page that it has replayed, so that remains its original's.
#[test]
fn a_promotion_accepts_nothing_that_was_replayed_before_the_file_was_written() {
    let original = Original { layout: record().layout, number: NUMBER };
    let originals = Originals::NONE.with(original, Claim::Assigned);
    let by_original = Bound { claim: Claim::Accepted, ..bound(NOW_MS) };
    for (written_on, logged_on, log_position) in
        [(1, 1, LOG_POSITION - 1), (1, 1, LOG_POSITION), (2, 1, LOG_POSITION + 1)]
    {
        let stored = of(Place { timeline: written_on, ..PLACE });
        let stored = Record { originals, ..stored };
        for origin in [ORIGIN, OTHER_ORIGIN] {
            let replayed = Some(Replayed { bound: by_original, log_position, timeline: logged_on });
            let promoted =
                StartupContext { timeline: 3, origin: Some(origin), replayed, ..context() };
            let refused = Err(StartupError::CopiedBefore { number: NUMBER });
            assert_eq!(startup::check_copy(Some(&stored), &promoted), refused);
        }
    }
}

/// Nor is the layout of its IDs that of its original.
#[test]
fn the_layout_in_a_file_is_not_replaced_by_one_that_was_replayed_before() {
    let (low, high) = (layout("js"), layout("default"));
    let stored = StoredRecord::Found(Record { layout: high, ..record() });
    let replayed = Some(Replayed {
        bound: Bound { layout: low, ..bound(NOW_MS) },
        log_position: LOG_POSITION,
        timeline: 1,
    });
    for origin in [ORIGIN, OTHER_ORIGIN] {
        let promoted = StartupContext { timeline: 2, origin: Some(origin), replayed, ..context() };
        let back = startup::start_point(&stored, &StartupContext { layout: low, ..promoted });
        assert!(matches!(back, Err(StartupError::LayoutBelow { .. })), "{back:?}");
        // A superuser accepted the lower one since.
        let accepted = StoredRecord::Found(Record { layout: low, ..record() });
        let of_original = replayed.map(|it| Replayed { bound: bound(NOW_MS), ..it });
        let lowered = StartupContext { layout: low, replayed: of_original, ..promoted };
        assert!(startup::start_point(&accepted, &lowered).is_ok());
    }
}

/// A superuser may have lowered it since, also on this directory's timeline of before.
#[test]
fn what_was_replayed_before_the_own_file_was_written_stays_accounted_for_once_promoted() {
    let until_ms = NOW_MS + 3_600_000;
    let replayed = logged_later(until_ms).map(|it| Replayed { log_position: LOG_POSITION, ..it });
    let promoted = StartupContext { timeline: 2, replayed, ..context() };
    let stored = StoredRecord::Found(record());
    assert!(first_ms(&stored, &promoted) < until_ms);
    let of_other = StartupContext { origin: Some(OTHER_ORIGIN), ..promoted };
    assert_eq!(first_ms(&stored, &of_other), until_ms);
}

#[test]
fn a_bound_of_another_server_on_the_own_timeline_is_noticed() {
    let stored = StoredRecord::Found(record());
    let start = |replayed| startup::start_point(&stored, &StartupContext { replayed, ..context() });
    let by = |bound| logged_later(NOW_MS).map(|logged| Replayed { bound, ..logged });
    let own = Bound { directory: DIRECTORY, ..bound(NOW_MS) };
    assert!(start(by(own)).is_ok(), "its own, logged after the file");
    for number in [Some(NUMBER), None] {
        let other = by(Bound { number, ..bound(NOW_MS) });
        assert!(matches!(start(other), Err(StartupError::ReservedByAnother { .. })), "{number:?}");
        let earlier = other.map(|logged| Replayed { log_position: LOG_POSITION, ..logged });
        assert!(start(earlier).is_ok(), "before this directory was one of its own");
    }
}

/// The file names the worker ID that the original had when it was copied, the log the one that it has got since.
#[test]
fn a_copy_has_neither_number_of_an_original_that_has_changed_its_own() {
    let number = Some(Number { worker: 8, ..NUMBER });
    let logged = Replayed { bound: Bound { number, ..bound(NOW_MS) }, ..logged_later(0).unwrap() };
    for origin in [OTHER_ORIGIN, ORIGIN] {
        let copy = StartupContext { origin: Some(origin), replayed: Some(logged), ..context() };
        let check = |worker| {
            let copy = StartupContext { assignment: numbered(worker), ..copy };
            startup::check_copy(Some(&record()), &copy)
        };
        assert!(matches!(check(8), Err(StartupError::ReservedByAnother { .. })));
        assert_eq!(check(7).is_err(), origin == OTHER_ORIGIN, "its own, if it wrote the file");
        assert_eq!(check(9), Ok(()));
        let originals = startup::originals(Some(&record()), &copy, Originals::NONE, None);
        assert_eq!(originals.iter().count(), if origin == OTHER_ORIGIN { 2 } else { 1 });
    }
}

/// A number that was confirmed in a layout is this server's there, though an original has it in another layout.
#[test]
fn a_confirmed_number_is_compared_with_numbers_of_its_layout_alone() {
    let layout_of = |text: &str| text.parse::<Layout>().unwrap();
    let of_original = layout_of("epoch=2024-01-01 tick=1ms time:41 worker:10 sequence:6");
    let layout = layout_of("epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:6");
    let number = Number { datacenter: 0, worker: (NUMBER.datacenter << 5) | NUMBER.worker };
    let original = Original { layout: of_original, number };
    let own = Original { layout, number: NUMBER };
    let originals = Originals::NONE.with(original, Claim::Assigned);
    assert_eq!(originals.refuse(own), Some(number));
    let server = StartupContext { layout, ..context() };
    let accepted = startup::originals(None, &server, originals, Some(NUMBER));
    assert_eq!(accepted.refuse(own), None);
    assert_eq!(accepted.refuse(original), Some(number), "it may still be in use in its layout");
    // For good: another number, and the same again.
    let again = startup::originals(None, &server, accepted, Some(Number { worker: 9, ..NUMBER }));
    assert_eq!(again.refuse(own), None);
}

#[test]
fn a_promoted_standby_with_the_layout_of_before_is_refused() {
    let later = layout("epoch=2020-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12");
    let bound = Bound { layout: later, ..bound(NOW_MS) };
    let replayed = logged_later(NOW_MS).map(|logged| Replayed { bound, ..logged });
    let context = StartupContext { timeline: 2, replayed, ..context() };
    for stored in [StoredRecord::Found(record()), StoredRecord::Absent] {
        let refused = startup::start_point(&stored, &context);
        assert!(matches!(refused, Err(StartupError::LayoutBelow { old, .. }) if old == later));
        let same = StartupContext { layout: later, ..context };
        assert!(startup::start_point(&stored, &same).is_ok());
    }
}

#[test]
fn an_earlier_file_in_its_place_is_refused() {
    let put_back = Directory { inode: FILE.inode, created_ns: FILE.created_ns.map(|ns| ns + 1) };
    let origin = Some(Origin { file: Some(put_back), ..ORIGIN });
    let context = StartupContext { origin, ..context() };
    let stored = StoredRecord::Found(record());
    let refused = StartupError::PutBack { written: FILE, found: put_back };
    assert_eq!(startup::start_point(&stored, &context), Err(refused));
    let accepted = StartupContext { is_only_copy: true, ..context };
    let above_ms = startup::above_clocks(&context).first_ms;
    assert_eq!(first_ms(&stored, &accepted), above_ms.max(record().until_ms));
    let promoted = StartupContext { timeline: 2, ..context };
    assert!(startup::start_point(&stored, &promoted).is_ok(), "a standby has it from a backup");
}

#[test]
fn a_copy_with_another_layout_is_refused_if_the_same_ids_are_possible() {
    let layout_of = |text: &str| text.parse::<Layout>().unwrap();
    let split = layout_of("epoch=2024-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:6");
    let joined = layout_of("epoch=2024-01-01 tick=1ms time:41 worker:10 sequence:6");
    let stored = StoredRecord::Found(Record { layout: split, ..record() });
    let start = |worker| {
        let assignment = Assignment::Manual(Some(Number { datacenter: 0, worker }));
        let context =
            StartupContext { layout: joined, origin: Some(OTHER_ORIGIN), assignment, ..context() };
        startup::start_point(&stored, &context)
    };
    let same = (NUMBER.datacenter << 5) | NUMBER.worker;
    assert!(matches!(start(same), Err(StartupError::Copied { .. })));
    assert!(!matches!(start(same + 1), Err(StartupError::Copied { .. })));
}

#[test]
fn the_only_copy_begins_above_what_its_original_did_since() {
    let copy = StartupContext { origin: Some(OTHER_ORIGIN), is_only_copy: true, ..context() };
    let margin_ms = i64::from(copy.max_lead_ms) + UNSEEN_CLOCK_MARGIN_MS;
    let stored = StoredRecord::Found(record());
    assert_eq!(first_ms(&stored, &copy), copy.clock.wall_ms() + margin_ms);
    let moved_back = StartupContext { origin: Some(ORIGIN), ..copy };
    assert_eq!(first_ms(&stored, &moved_back), record().until_ms, "the original itself");
}

#[test]
fn an_upgraded_server_begins_above_what_the_old_one_may_have_issued() {
    let upgraded_ms = NOW_MS - 1_000;
    let upgraded = StartupContext { upgraded_ms: Some(upgraded_ms), ..context() };
    let above = upgraded_ms + i64::from(upgraded.max_lead_ms) + UNSEEN_CLOCK_MARGIN_MS;
    assert_eq!(first_ms(&StoredRecord::Absent, &upgraded), above);
    assert_eq!(startup::start_point(&StoredRecord::Lost, &upgraded), Err(StartupError::Lost));
    // What the new server did before it was filled is nothing to go by.
    assert_eq!(first_ms(&StoredRecord::Found(record()), &upgraded), above);
}

#[test]
fn an_upgraded_server_takes_the_file_of_the_old_one() {
    let upgraded = StartupContext { upgraded_ms: Some(NOW_MS - 60_000), ..context() };
    // Of another cluster, on a timeline of its own.
    let old = of(Place { system_identifier: 1, timeline: 3, ..PLACE });
    assert_eq!(first_ms(&StoredRecord::Found(old.clone()), &upgraded), old.until_ms);
    let led = Record { until_ms: NOW_MS + 3_600_000, ..old.clone() };
    assert_eq!(first_ms(&StoredRecord::Found(led), &upgraded), NOW_MS + 3_600_000);
    let other_layout = Record { layout: layout("twitter"), ..old };
    let begun = startup::start_point(&StoredRecord::Found(other_layout), &upgraded);
    assert!(matches!(begun, Err(StartupError::LayoutBelow { .. })));
}

#[test]
fn a_clock_moved_while_the_server_was_down_is_known_within_one_boot() {
    let forward = StartupContext { clock: clock(NOW_MS + 3_600_000, 5_500), ..context() };
    let start = startup::start_point(&StoredRecord::Found(record()), &forward).unwrap();
    let mut monitor = start.monitor;
    let jumped_ns = monitor.check(forward.clock, 600_000_000_000).jumped_ns;
    assert_eq!(jumped_ns, Some(3_599_500_000_000));
    for boot in [43, startup::UNKNOWN_BOOT] {
        let elsewhere = StartupContext { boot, ..forward };
        let record = Record { boot: startup::UNKNOWN_BOOT, ..record() };
        let start = startup::start_point(&StoredRecord::Found(record), &elsewhere).unwrap();
        assert_eq!(start.monitor.trusted(), forward.clock, "nothing to compare with");
    }
}

#[test]
fn a_layout_may_change_only_upwards() {
    let change = |old: &str, new: &str| {
        let record = Record { layout: layout(old), ..record() };
        let context = StartupContext { layout: layout(new), ..context() };
        startup::start_point(&StoredRecord::Found(record), &context)
    };
    // The time stands at the same bit, counted from the same epoch or an earlier one.
    assert!(change("default", "wide").is_ok());
    assert!(change("wide", "default").is_ok());
    assert!(change("default", "pgedge").is_ok());
    assert!(change("default", "twitter").is_ok());
    // A later epoch, or fewer bits below the time, go below.
    for (old, new) in [("twitter", "default"), ("pgedge", "wide"), ("default", "js")] {
        let Err(StartupError::LayoutBelow { highest_old, lowest_new, .. }) = change(old, new)
        else {
            panic!("{old} to {new} must be refused");
        };
        assert!(lowest_new <= highest_old);
    }
}

#[test]
fn no_layout_change_that_is_allowed_can_repeat_an_id() {
    for old in presets::all() {
        for new in presets::all() {
            let record = Record { layout: old.layout, ..record() };
            let context = StartupContext { layout: new.layout, ..context() };
            if let Ok(start) = startup::start_point(&StoredRecord::Found(record.clone()), &context)
            {
                let highest =
                    old.layout.max_of(old.layout.tick_from(record.until_ms).saturating_sub(1));
                let first = new.layout.tick_from(start.first_ms);
                if first < new.layout.ticks() && old.layout != new.layout {
                    assert!(new.layout.min_of(first) > highest, "{} to {}", old.name, new.name);
                }
            }
        }
    }
}

#[test]
fn crashes_in_a_row_do_not_drive_the_allocator_away_from_the_clock() {
    let (layout, max_lead_ms) = (layout("default"), 5_000);
    let mut until_ms = NOW_MS;
    for _ in 0..100 {
        let start =
            startup::start_point(&StoredRecord::Found(Record { until_ms, ..record() }), &context());
        let allocator = Allocator::new(&layout, &start.unwrap());
        until_ms = allocator.next_reserved_until_ms(&layout, &NODE, Some(NOW_MS), max_lead_ms);
    }
    assert!(until_ms <= NOW_MS + i64::from(max_lead_ms) + RESERVE_AHEAD_MS);
}

#[test]
fn a_clock_set_back_does_not_lower_what_was_reserved() {
    let layout = layout("default");
    let start = startup::start_point(&StoredRecord::Found(record()), &context()).unwrap();
    let allocator = Allocator::new(&layout, &start);
    let hour_ago_ms = NOW_MS - 3_600_000;
    assert_eq!(
        allocator.next_reserved_until_ms(&layout, &NODE, Some(hour_ago_ms), 5_000),
        record().until_ms
    );
}

#[test]
fn a_clock_that_is_not_trusted_reserves_nothing() {
    let layout = layout("default");
    let start = startup::start_point(&StoredRecord::Found(record()), &context()).unwrap();
    let allocator = Allocator::new(&layout, &start);
    assert_eq!(allocator.next_reserved_until_ms(&layout, &NODE, None, 5_000), record().until_ms);
}

#[test]
fn what_is_withdrawn_can_not_be_claimed() {
    let fields = [(Field::Time, 20), (Field::Sequence, 3)];
    let layout = Layout::new(0, 1, false, &fields).unwrap();
    let start = startup::start_point(&StoredRecord::Absent, &context()).unwrap();
    let mut allocator = Allocator::new(&layout, &start);
    let claim = |allocator: &mut Allocator, now_tick| {
        allocator.claim(
            &layout,
            now_tick,
            ClaimSize::Block(1),
            LeadLimit::of_ticks(0),
            SequenceStart::Zero,
        )
    };
    assert!(claim(&mut allocator, 100).is_err(), "nothing is reserved yet");
    allocator.extend(&layout, 3_100);
    assert!(allocator.is_low(layout.first_position(2_000)));
    assert!(!allocator.is_low(layout.first_position(1_000)));
    assert!(claim(&mut allocator, 100).is_ok());
    assert_eq!(allocator.release(&layout), 101, "the tick in use ends there");
    assert!(claim(&mut allocator, 100).is_ok(), "the rest of the tick in use is still reserved");
    assert!(claim(&mut allocator, 101).is_err());
    assert_eq!(
        allocator.next_reserved_until_ms(&layout, &NODE, Some(101), 0),
        101 + RESERVE_AHEAD_MS
    );
    allocator.extend(&layout, 3_101);
    assert!(claim(&mut allocator, 101).is_ok());
}

/// A server that was started before its layout was chosen is not bound to the one it had.
#[test]
fn an_allocator_that_issued_nothing_lets_any_layout_follow() {
    let start = startup::start_point(&StoredRecord::Absent, &context()).unwrap();
    let mut allocator = Allocator::new(&layout("twitter"), &start);
    allocator.extend(&layout("twitter"), NOW_MS);
    let until_ms = allocator.release(&layout("twitter"));
    for preset in presets::all() {
        let record = Record { layout: layout("twitter"), until_ms, ..record() };
        let context = StartupContext { layout: preset.layout, ..context() };
        let began = startup::start_point(&StoredRecord::Found(record), &context);
        assert!(began.is_ok(), "{}: {began:?}", preset.name);
    }
}

#[test]
fn what_follows_a_change_of_node_is_of_a_later_tick() {
    let layout = layout("default");
    let start = startup::start_point(&StoredRecord::Found(record()), &context()).unwrap();
    let mut allocator = Allocator::new(&layout, &start);
    allocator.extend(&layout, record().until_ms + 1_000);
    let start = allocator.frontier();
    allocator.change_node(&layout, &Identity::NONE);
    assert_eq!(allocator.frontier(), start, "nothing of the tick was handed out");
    allocator.extend(&layout, record().until_ms + 1_000);
    let claim = |allocator: &mut Allocator| {
        let now_tick = layout.tick_from(record().until_ms);
        allocator
            .claim(
                &layout,
                now_tick,
                ClaimSize::Block(1),
                LeadLimit::of_ticks(5_000),
                SequenceStart::Spread,
            )
            .unwrap()
    };
    let last = claim(&mut allocator).start;
    allocator.change_node(&layout, &Identity::NONE);
    assert_eq!(allocator.reserved_end(), allocator.frontier().position(), "nothing is reserved");
    allocator.extend(&layout, record().until_ms + 1_000);
    assert_eq!(claim(&mut allocator).start, layout.first_position(layout.tick_of(last) + 1));
}

#[test]
fn a_granted_number_starts_where_its_former_holder_ended() {
    let layout = layout("default");
    let start = startup::start_point(&StoredRecord::Found(record()), &context()).unwrap();
    let mut allocator = Allocator::new(&layout, &start);
    allocator.extend(&layout, record().until_ms + 1_000);
    let number = Number { datacenter: 0, worker: 3 };
    let (first_ms, until_ms) = (record().until_ms + 7_000, record().until_ms + 40_000);
    let identity =
        Identity::granted(&ActiveGrant { number, first_ms, others_ms: first_ms, until_ms });
    allocator.change_node(&layout, &identity);
    assert_eq!(allocator.frontier_ms(&layout), first_ms);
    assert!(allocator.reserved_end() < allocator.frontier().position(), "nothing is reserved");
}

/// The reservation never outlives the server's right to its number.
#[test]
fn a_limited_right_to_a_number_caps_the_reservation() {
    let layout = layout("default");
    let start = startup::start_point(&StoredRecord::Absent, &context()).unwrap();
    let allocator = Allocator::new(&layout, &start);
    let until_ms = |valid_until_ms| {
        let identity = Identity { valid_until_ms, ..NODE };
        allocator.next_reserved_until_ms(&layout, &identity, Some(NOW_MS), 5_000)
    };
    assert_eq!(until_ms(None), NOW_MS + RESERVE_AHEAD_MS);
    assert_eq!(until_ms(Some(NOW_MS + 30_000)), NOW_MS + RESERVE_AHEAD_MS);
    assert_eq!(until_ms(Some(NOW_MS + 1_000)), NOW_MS + 1_000);
    assert_eq!(until_ms(Some(0)), allocator.reserved_until_ms(&layout));
}

fn granted(worker: u32, first_ms: i64) -> Granted {
    Granted { number: Number { worker, ..NUMBER }, first_ms }
}

#[test]
fn a_granted_number_starts_where_the_grant_says_whatever_is_on_disk() {
    let context = StartupContext { timeline: 2, ..context() };
    let first_ms = record().until_ms - 60_000;
    let granted = granted(8, first_ms);
    for stored in [StoredRecord::Absent, StoredRecord::Found(record())] {
        let start = startup::granted_start_point(&stored, &context, granted).unwrap();
        assert_eq!(start.first_ms, first_ms, "{stored:?}");
    }
    let lost = startup::granted_start_point(&StoredRecord::Lost, &context, granted);
    assert_eq!(lost, Err(StartupError::Lost), "whose copy this is");
    // But a layout whose IDs sort below those that were made here is refused as without a fleet.
    let narrower = StartupContext { layout: layout("js"), ..context };
    let is_below = |stored, context| {
        let start = startup::granted_start_point(&stored, &context, granted);
        matches!(start, Err(StartupError::LayoutBelow { .. }))
    };
    for timeline in [1, 2] {
        let narrower = StartupContext { timeline, ..narrower };
        assert!(is_below(StoredRecord::Found(record()), narrower));
    }
    let of_publisher = of(Place { system_identifier: 1, ..PLACE });
    assert!(is_below(StoredRecord::Found(of_publisher), narrower), "made of a standby");
    let replayed = logged_later(NOW_MS);
    assert!(is_below(StoredRecord::Absent, StartupContext { replayed, ..narrower }));
}

/// Of its primary, which was in no fleet, the registry knows nothing.
#[test]
fn a_granted_number_starts_above_what_the_primary_made_with_it() {
    let far_ms = NOW_MS + 3_600_000;
    let promoted = StartupContext { timeline: 2, ..context() };
    let reach_ms = startup::above_clocks(&promoted).first_ms;
    let stored = StoredRecord::Found(record());
    let start = |stored: &StoredRecord, context: &StartupContext, granted| {
        startup::granted_start_point(stored, context, granted).unwrap().first_ms
    };
    let by_file = |worker| start(&stored, &promoted, granted(worker, NOW_MS));
    assert_eq!((by_file(7), by_file(8)), (reach_ms.max(record().until_ms), NOW_MS));
    let replayed = logged_later(far_ms);
    // The log names the last number of the primary, which may have had another one before.
    for claim in [Claim::Assigned, Claim::Granted, Claim::Accepted] {
        let bound = Bound { claim, ..bound(far_ms) };
        let replayed = replayed.map(|it| Replayed { bound, ..it });
        let logged = StartupContext { replayed, ..promoted };
        for worker in [7, 8] {
            assert_eq!(start(&StoredRecord::Absent, &logged, granted(worker, 0)), far_ms);
        }
        assert_eq!(start(&stored, &logged, granted(8, NOW_MS)), far_ms);
    }
}

/// The file was written before its original changed the layout.
#[test]
fn a_copy_with_the_layout_of_before_is_refused() {
    let later = layout("epoch=2020-01-01 tick=1ms time:41 datacenter:5 worker:5 sequence:12");
    let bound = Bound { layout: later, directory: DIRECTORY, ..bound(NOW_MS) };
    let replayed = logged_later(NOW_MS).map(|logged| Replayed { bound, ..logged });
    let stored = StoredRecord::Found(record());
    let start = |context: StartupContext| startup::start_point(&stored, &context);
    let copy = StartupContext { origin: Some(OTHER_ORIGIN), replayed, ..context() };
    let is_below =
        |start| matches!(start, Err(StartupError::LayoutBelow { old, .. }) if old == later);
    assert!(is_below(start(StartupContext { assignment: numbered(8), ..copy })));
    assert!(is_below(start(StartupContext { is_only_copy: true, ..copy })));
    // On the server itself, a superuser accepted the layout in the file since.
    assert!(start(StartupContext { replayed, ..context() }).is_ok());
    let earlier = Origin { file: Some(Directory { created_ns: Some(1), ..FILE }), ..ORIGIN };
    let put_back = StartupContext { origin: Some(earlier), is_only_copy: true, ..copy };
    assert!(is_below(start(put_back)));
}
