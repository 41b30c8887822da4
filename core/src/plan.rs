//! Which layout to choose: from requirements to fields, and from one layout to a wider one whose IDs
//! are larger.
//!
//! [`propose`] follows one rule, so that its answer can be predicted. The epoch is the first day of
//! the current year. The tick is the finest of [`TICKS_MS`] with which every field can be as wide as
//! the requirements need, because IDs are in order to one tick. What is left of the bits goes to more
//! than is required: to four times the IDs a second, four times the servers, twice the regions and
//! twice the years; then to what is usual, 60 years, 64 servers of a region and 4,096 IDs a
//! millisecond. The rest stays unused above the time, for [`successor`] to use.

use std::fmt;

use jiff::tz::Offset;
use jiff::{Span, Timestamp};

use crate::layout::{Field, Layout, SIGNED_BITS};

/// The ticks that are proposed, in milliseconds, the one preferred first.
pub const TICKS_MS: [u32; 4] = [1, 10, 100, 1000];

/// Bits of an integer that a JavaScript number holds exactly (ECMA-262, `Number.MAX_SAFE_INTEGER`).
pub const JS_SAFE_BITS: u32 = 53;

/// How many times the required IDs and servers there should be room for, if bits are left: both are
/// often guessed too low.
const AMPLE: u64 = 4;

/// How many times the required regions there should be room for, if bits are left, and how many times
/// the required years the layout should last.
const TWICE: u32 = 2;

/// For how many years a layout lasts at least, if bits are left: about as long as most do.
const USUAL_YEARS: u32 = 60;

/// For how many servers of a region there is room at least, if bits are left.
const USUAL_SERVERS: u64 = 64;

/// The IDs a second for which the sequence has room at least, if bits are left: 4,096 a millisecond,
/// as in most layouts, so that a bulk load need not wait.
const USUAL_IDS_PER_SECOND: u64 = 4_096_000;

/// What a layout should be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// IDs that one server can make in a second.
    pub ids_per_second: u64,
    /// Servers of a region that generate side by side, each with a worker number of its own.
    pub servers: u64,
    /// Regions, each with a datacenter number of its own if there are several.
    pub regions: u64,
    /// For how many years from now it lasts.
    pub years: u32,
    /// Whether every ID is a safe integer of JavaScript.
    pub js_safe: bool,
}

impl Requirements {
    /// The most bits that a layout may have.
    pub const fn max_bits(&self) -> u32 {
        if self.js_safe { JS_SAFE_BITS } else { SIGNED_BITS }
    }
}

/// No layout meets the requirements. For each of them: the most for which there would be a layout if only
/// that one were changed, or `None` if changing it alone does not help.
///
/// `Display` is that as advice, a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLayout {
    /// The most bits that a layout could have had.
    pub max_bits: u32,
    /// The most years.
    pub years: Option<u32>,
    /// The most IDs a second.
    pub ids_per_second: Option<u64>,
    /// The most servers of a region.
    pub servers: Option<u64>,
    /// The most regions, if there are several.
    pub regions: Option<u64>,
    /// Whether there is a layout with more bits than are safe in JavaScript.
    pub beyond_js: bool,
}

impl fmt::Display for NoLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut most = Vec::new();
        let mut at_most = |count: Option<u64>, one: &str, many: &str| {
            most.extend(count.map(|count| {
                format!("at most {} {}", grouped(count.into()), if count == 1 { one } else { many })
            }));
        };
        at_most(self.years.map(u64::from), "year", "years");
        at_most(self.ids_per_second, "ID per second", "IDs per second");
        at_most(self.servers, "server", "servers");
        at_most(self.regions, "region", "regions");
        let less = (!most.is_empty()).then(|| format!("ask for {}", most.join(",\nor ")));
        let beyond_js = self.beyond_js.then(|| "leave js_safe out".to_owned());
        let ways: Vec<String> = less.into_iter().chain(beyond_js).collect();
        write!(f, "No layout of {} bits meets the requirements", self.max_bits)?;
        if ways.is_empty() {
            f.write_str(".\nReducing one requirement is not enough.")
        } else {
            write!(f, ".\nTo get one, {}.", ways.join(",\nor "))
        }
    }
}

/// A number as a person reads it: `4,096,000`.
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Proposes a layout that meets the requirements, by the rule of the [module](self).
///
/// # Errors
/// [`NoLayout`] says how much less would do.
pub fn propose(requirements: &Requirements, now_ms: i64) -> Result<Layout, NoLayout> {
    let Some(leanest) = leanest(requirements, now_ms) else {
        return Err(no_layout(requirements, now_ms));
    };
    let Requirements { ids_per_second, servers, regions, years, .. } = *requirements;
    let wanted = [
        Wanted::Rate(ids_per_second.saturating_mul(AMPLE)),
        Wanted::Numbers(Field::Worker, servers.saturating_mul(AMPLE)),
        Wanted::Numbers(
            Field::Datacenter,
            if regions > 1 { regions.saturating_mul(TWICE.into()) } else { 1 },
        ),
        Wanted::End(in_years(now_ms, years.saturating_mul(TWICE))),
        Wanted::End(in_years(now_ms, USUAL_YEARS)),
        Wanted::Numbers(Field::Worker, USUAL_SERVERS),
        Wanted::Rate(USUAL_IDS_PER_SECOND),
    ];
    Ok(wanted.iter().fold(leanest, |layout, wanted| wanted.widen(layout, requirements.max_bits())))
}

/// What a layout should have room for, if bits are left.
enum Wanted {
    /// IDs a second of one server.
    Rate(u64),
    /// Numbers of a field.
    Numbers(Field, u64),
    /// Time until a Unix millisecond; `None` after the year 9999.
    End(Option<i64>),
}

impl Wanted {
    /// The layout with as much room for it as so many bits allow.
    fn widen(&self, mut layout: Layout, max_bits: u32) -> Layout {
        while !self.is_met(&layout)
            && let Some(wider) = widened(&layout, self.field(), max_bits)
        {
            layout = wider;
        }
        layout
    }

    const fn field(&self) -> Field {
        match *self {
            Wanted::Rate(_) => Field::Sequence,
            Wanted::Numbers(field, _) => field,
            Wanted::End(_) => Field::Time,
        }
    }

    fn is_met(&self, layout: &Layout) -> bool {
        match *self {
            Wanted::Rate(ids_per_second) => layout.per_second() >= ids_per_second,
            Wanted::Numbers(field, count) => u64::from(layout.max_number(field)) + 1 >= count,
            Wanted::End(end_ms) => end_ms.is_some_and(|end_ms| lasts_until(layout, end_ms)),
        }
    }
}

/// The layout with the finest tick that meets the requirements, and no field wider than it must be.
fn leanest(requirements: &Requirements, now_ms: i64) -> Option<Layout> {
    let epoch_ms = start_of_year(now_ms)?;
    let length_ms = in_years(now_ms, requirements.years)?.checked_sub(epoch_ms)?;
    TICKS_MS.into_iter().find_map(|tick_ms| {
        let ticks = u64::try_from(length_ms).ok()?.div_ceil(tick_ms.into());
        let mut fields = vec![
            (Field::Time, bits_to_count(ticks.into())),
            (Field::Worker, bits_to_count(requirements.servers.into())),
            (Field::Sequence, bits_to_count(per_tick(requirements.ids_per_second, tick_ms))),
        ];
        if requirements.regions > 1 {
            fields.insert(1, (Field::Datacenter, bits_to_count(requirements.regions.into())));
        }
        let layout = Layout::new(epoch_ms, tick_ms, false, &fields).ok()?;
        (layout.total_bits() <= requirements.max_bits()).then_some(layout)
    })
}

/// How much less of each requirement there would be a layout for.
fn no_layout(requirements: &Requirements, now_ms: i64) -> NoLayout {
    let fits = |requirements: &Requirements| leanest(requirements, now_ms).is_some();
    let years = most(requirements.years.into(), |years| {
        u32::try_from(years).is_ok_and(|years| fits(&Requirements { years, ..*requirements }))
    });
    NoLayout {
        max_bits: requirements.max_bits(),
        years: years.and_then(|years| u32::try_from(years).ok()),
        ids_per_second: most(requirements.ids_per_second, |ids_per_second| {
            fits(&Requirements { ids_per_second, ..*requirements })
        }),
        servers: most(requirements.servers, |servers| {
            fits(&Requirements { servers, ..*requirements })
        }),
        regions: most(requirements.regions, |regions| {
            fits(&Requirements { regions, ..*requirements })
        })
        .filter(|_| requirements.regions > 1),
        beyond_js: fits(&Requirements { js_safe: false, ..*requirements }),
    }
}

/// The largest number from 1 to `limit` that fits, where every number below one that fits does, too.
fn most(limit: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    // `low` fits, or is zero; nothing above `high` fits.
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    (low > 0).then_some(low)
}

/// A layout for when this one runs out: the same but for a wider time field, by one bit at least
/// and as many more as it takes to last for that many years from now. So every ID keeps its meaning,
/// and those of later ticks lie above. `None` if 63 bits have no room for it, or if it would end
/// after the year 9999. It may have more than 53 bits where this one has not.
pub fn successor(layout: &Layout, now_ms: i64, years: u32) -> Option<Layout> {
    let end_ms = in_years(now_ms, years)?;
    let mut wider = widened(layout, Field::Time, SIGNED_BITS)?;
    while !lasts_until(&wider, end_ms) {
        wider = widened(&wider, Field::Time, SIGNED_BITS)?;
    }
    Some(wider)
}

/// The layout with one bit more in a field, if that stays within so many bits.
fn widened(layout: &Layout, field: Field, max_bits: u32) -> Option<Layout> {
    let wider =
        with_widths(layout, |each| layout.bits(each).saturating_add(u32::from(each == field)))?;
    (wider.total_bits() <= max_bits).then_some(wider)
}

/// The layout with other widths for the fields it has. A field of no bits is left out.
fn with_widths(layout: &Layout, bits: impl Fn(Field) -> u32) -> Option<Layout> {
    let fields: Vec<(Field, u32)> = layout
        .fields()
        .into_iter()
        .map(|field| (field, bits(field)))
        .filter(|&(_, bits)| bits > 0)
        .collect();
    Layout::new(layout.epoch_ms(), layout.tick_ms(), layout.is_unsigned(), &fields).ok()
}

const fn lasts_until(layout: &Layout, end_ms: i64) -> bool {
    layout.runs_out_ms() >= end_ms
}

/// IDs of one tick, rounded up, for so many a second.
fn per_tick(ids_per_second: u64, tick_ms: u32) -> u128 {
    (u128::from(ids_per_second) * u128::from(tick_ms)).div_ceil(1000)
}

/// Bits of a field that tells so many things apart: one at least, as a layout has no field of none.
const fn bits_to_count(things: u128) -> u32 {
    let bits = u128::BITS - things.saturating_sub(1).leading_zeros();
    if bits == 0 { 1 } else { bits }
}

/// The first moment of the year in UTC, or `None` outside the years -9999 to 9999.
fn start_of_year(now_ms: i64) -> Option<i64> {
    let day = Offset::UTC.to_datetime(Timestamp::from_millisecond(now_ms).ok()?).date();
    let first = Offset::UTC.to_timestamp(day.first_of_year().at(0, 0, 0, 0)).ok()?;
    Some(first.as_millisecond())
}

/// The same date and time so many years later, or `None` after the year 9999.
fn in_years(now_ms: i64, years: u32) -> Option<i64> {
    let now = Offset::UTC.to_datetime(Timestamp::from_millisecond(now_ms).ok()?);
    let later = now.checked_add(Span::new().try_years(years).ok()?).ok()?;
    Some(Offset::UTC.to_timestamp(later).ok()?.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-07-01T00:00:00Z.
    const NOW_MS: i64 = 1_782_864_000_000;

    fn requirements(ids_per_second: u64, servers: u64, years: u32, js_safe: bool) -> Requirements {
        Requirements { ids_per_second, servers, regions: 1, years, js_safe }
    }

    #[track_caller]
    fn proposed(requirements: Requirements, text: &str) {
        assert_eq!(
            propose(&requirements, NOW_MS).map(|layout| layout.to_string()),
            Ok(text.to_owned())
        );
    }

    #[track_caller]
    fn advised(requirements: Requirements, text: &str) {
        assert_eq!(
            propose(&requirements, NOW_MS).map_err(|none| none.to_string()),
            Err(text.to_owned())
        );
    }

    #[test]
    fn bits_left_over_go_to_more_than_is_required_then_nowhere() {
        // One ID a second of one server for a year needs 38 bits: what is usual needs 59.
        proposed(
            requirements(1, 1, 1, false),
            "epoch=2026-01-01 tick=1ms time:41 worker:6 sequence:12",
        );
        proposed(
            requirements(100, 1, 1, true),
            "epoch=2026-01-01 tick=1ms time:41 worker:6 sequence:6",
        );
        // 3,000,000 IDs a second need 12 bits, and four times as many 14; 100 servers need 7 bits, and the
        // last bit is theirs. 120 years would need 42.
        proposed(
            requirements(3_000_000, 100, 60, false),
            "epoch=2026-01-01 tick=1ms time:41 worker:8 sequence:14",
        );
        // Four times the IDs and servers and twice the years take 4 of the 7 bits that are left of 53.
        proposed(
            requirements(1000, 32, 20, true),
            "epoch=2026-01-01 tick=1ms time:41 worker:7 sequence:5",
        );
    }

    #[test]
    fn a_coarser_tick_only_where_the_bits_are_short() {
        proposed(
            requirements(100_000, 32, 80, true),
            "epoch=2026-01-01 tick=10ms time:38 worker:5 sequence:10",
        );
        proposed(
            requirements(2560, 1024, 100, true),
            "epoch=2026-01-01 tick=100ms time:35 worker:10 sequence:8",
        );
    }

    #[test]
    fn regions_have_a_field_of_their_own() {
        proposed(
            Requirements { regions: 3, ..requirements(10_000, 10, 30, false) },
            "epoch=2026-01-01 tick=1ms time:41 datacenter:3 worker:6 sequence:12",
        );
        advised(
            Requirements { regions: 3, ..requirements(1_000_000, 8, 30, true) },
            "No layout of 53 bits meets the requirements.\nTo get one, ask for at most 8 years,\nor at most 262,144 IDs per second,\nor at most 2 servers,\nor at most 1 region,\nor leave js_safe out.",
        );
    }

    #[test]
    fn advice_names_every_way_out() {
        advised(
            requirements(1_000_000, 64, 30, true),
            "No layout of 53 bits meets the requirements.\nTo get one, ask for at most 3 years,\nor at most 131,072 IDs per second,\nor at most 8 servers,\nor leave js_safe out.",
        );
        advised(
            requirements(1_000_000, 1_000_000, 30, true),
            "No layout of 53 bits meets the requirements.\nTo get one, ask for at most 8 IDs per second,\nor at most 8 servers.",
        );
        advised(
            requirements(1, 1, 10_000, false),
            "No layout of 63 bits meets the requirements.\nTo get one, ask for at most 6,967 years.",
        );
        advised(
            requirements(u64::MAX, u64::MAX, u32::MAX, true),
            "No layout of 53 bits meets the requirements.\nReducing one requirement is not enough.",
        );
    }

    #[test]
    fn advice_speaks_of_one_as_of_one() {
        let none = NoLayout {
            max_bits: JS_SAFE_BITS,
            years: Some(1),
            ids_per_second: None,
            servers: Some(1),
            regions: None,
            beyond_js: true,
        };
        assert_eq!(
            none.to_string(),
            "No layout of 53 bits meets the requirements.\nTo get one, ask for at most 1 year,\nor at most 1 server,\nor leave js_safe out."
        );
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown = [0, 999, 1000, 4_096_000].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "4,096,000"]);
    }
}
