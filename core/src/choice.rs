//! Which kind of ID to choose: from what somebody wishes to every kind, whether it fits, and if not, why.
//!
//! [`choices`] follows one rule, so that its answer can be predicted. What fits comes before what does not; then what
//! takes fewer bytes per row, table and primary key together, in whole bytes, as [measured](crate::sizes); then the order
//! of [`Kind::ALL`]. A kind is asked about the wishes in this order, and the first that it does not meet is the reason:
//! shards, secret, sortable, dense, JavaScript, and whether there are enough of its IDs, for that long and so fast.
//!
//! Rates are those of the peak, and are taken for the whole time, so there are more IDs than will be needed.

use crate::layout::Layout;
use crate::offsets::MOST_NODES;
use crate::plan::{self, NoLayout, Requirements, grouped};
use crate::random_id::collision_chance;
use crate::shards::MOST_SHARDS;
use crate::sizes::{self, Size};
use crate::{ulid, uuid7};

const MS_PER_SECOND: u128 = 1000;

/// A Gregorian year, on average.
const SECONDS_PER_YEAR: u128 = 31_556_952;

/// The last millisecond of the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;

/// The largest number that JavaScript holds exactly, and the largest ticket.
const LARGEST_SAFE: u64 = (1 << plan::JS_SAFE_BITS) - 1;

/// The largest chance that two of all IDs with random bits are alike.
const MOST_COLLISION_CHANCE: f64 = 1e-6;

/// Steps of a second within which only random bits tell the UUIDs of one time apart.
const STEPS_PER_SECOND: f64 = 1000.0 * (1u64 << uuid7::FRACTION_BITS) as f64;

/// Moments of a second that an order over the whole server has: no more UUIDs are made without leading the clock.
const MOMENTS_PER_SECOND: u64 = 1000 << (uuid7::FRACTION_BITS + uuid7::FINER_BITS);

/// What somebody wishes of IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How many, on how many servers, for how long, and whether JavaScript has to hold them as numbers.
    pub requirements: Requirements,
    /// Of how many shards an ID tells which one it is of; 0 if of none.
    pub shards: u64,
    /// Whether one who sees an ID must neither learn when it was made and how many there are, nor guess another.
    pub secret: bool,
    /// Whether new IDs sort after old ones, those of other servers too.
    pub sortable: bool,
    /// Whether there are no gaps, but for those of transactions that were rolled back and of crashes.
    pub dense: bool,
}

impl Wish {
    /// Servers of all regions.
    fn servers(&self) -> u128 {
        u128::from(self.requirements.servers) * u128::from(self.requirements.regions)
    }

    /// All IDs that will be made.
    fn ids(&self) -> u128 {
        self.servers()
            .saturating_mul(self.requirements.ids_per_second.into())
            .saturating_mul(self.seconds())
    }

    /// The seconds of all years.
    fn seconds(&self) -> u128 {
        u128::from(self.requirements.years) * SECONDS_PER_YEAR
    }

    /// The layout of snowflakes that are made by shards: each may need what one server makes, and the servers have
    /// numbers of their own among those of shards.
    fn layout_of_shards(&self, now_ms: i64) -> Result<Layout, NoLayout> {
        let servers = u64::try_from(self.servers()).unwrap_or(u64::MAX);
        let numbers = self.shards.saturating_add(servers);
        let requirements = Requirements { servers: numbers, regions: 1, ..self.requirements };
        plan::propose(&requirements, now_ms)
    }
}

/// A kind of ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `snowflake_next()`.
    Snowflake,
    /// `snowflake_next(shard)`.
    SnowflakeOfShard,
    /// A number from a sequence, of several servers with an offset each.
    Sequence,
    /// `ticket_next(sequence)`.
    Ticket,
    /// A snowflake that is shown as `id_mask(id, domain)`.
    MaskedSnowflake,
    /// `uuidv7()`.
    Uuid7,
    /// `uuidv7_ordered()`.
    Uuid7Ordered,
    /// `ulid()`.
    Ulid,
    /// `uuidv4()`.
    Uuid4,
    /// `id_random()`.
    RandomId,
    /// `ulid_encode(ulid())`.
    UlidText,
    /// `typeid(prefix)`.
    TypeId,
}

/// A kind and what it is for a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The kind.
    pub kind: Kind,
    /// Why it does not fit, if it does not.
    pub misfit: Option<String>,
    /// Its layout, if it has one and there is one.
    pub layout: Option<Layout>,
    /// Why there is no layout.
    pub no_layout: Option<NoLayout>,
    /// How many IDs there are in all, where it counts.
    pub numbers: Option<u64>,
}

impl Kind {
    /// All of them, those first that are preferred where all else is the same.
    pub const ALL: [Kind; 12] = [
        Kind::Snowflake,
        Kind::SnowflakeOfShard,
        Kind::Sequence,
        Kind::Ticket,
        Kind::MaskedSnowflake,
        Kind::Uuid7,
        Kind::Uuid7Ordered,
        Kind::Ulid,
        Kind::Uuid4,
        Kind::RandomId,
        Kind::UlidText,
        Kind::TypeId,
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Snowflake => "snowflake",
            Kind::SnowflakeOfShard => "snowflake of a shard",
            Kind::Sequence => "sequence",
            Kind::Ticket => "ticket",
            Kind::MaskedSnowflake => "masked snowflake",
            Kind::Uuid7 => "uuidv7",
            Kind::Uuid7Ordered => "uuidv7_ordered",
            Kind::Ulid => "ulid",
            Kind::Uuid4 => "uuidv4",
            Kind::RandomId => "id_random",
            Kind::UlidText => "ulid as text",
            Kind::TypeId => "typeid",
        }
    }

    /// What it takes on disk.
    pub const fn size(self) -> Size {
        match self {
            Kind::Snowflake | Kind::SnowflakeOfShard | Kind::MaskedSnowflake => sizes::SNOWFLAKE,
            Kind::Sequence | Kind::Ticket => sizes::BIGINT,
            Kind::Uuid7 => sizes::UUID7,
            Kind::Uuid7Ordered => sizes::UUID7_ORDERED,
            Kind::Ulid => sizes::ULID,
            Kind::Uuid4 => sizes::UUID4,
            Kind::RandomId => sizes::RANDOM_ID,
            Kind::UlidText => sizes::ULID_TEXT,
            Kind::TypeId => sizes::TYPEID,
        }
    }

    /// The bits that tell its IDs apart by chance, if it is chance that does: those that are random, and for IDs of a time
    /// those that count the different times of all years, as if IDs came evenly.
    fn random_bits(self, wish: &Wish) -> Option<f64> {
        let of_time = |per_second: f64| (per_second * wish.seconds() as f64).log2();
        match self {
            Kind::Uuid4 => Some(122.0),
            // 21 characters of 64.
            Kind::RandomId => Some(126.0),
            Kind::Uuid7 | Kind::TypeId => {
                Some(f64::from(uuid7::RANDOM_BITS) + of_time(STEPS_PER_SECOND))
            }
            Kind::Ulid | Kind::UlidText => {
                Some(f64::from(uuid7::RANDOM_BITS + ulid::FURTHER_BITS) + of_time(STEPS_PER_SECOND))
            }
            // Those of one server differ in their moments.
            Kind::Uuid7Ordered if wish.servers() > 1 => {
                Some(f64::from(uuid7::UNGUESSED_BITS) + of_time(MOMENTS_PER_SECOND as f64))
            }
            _ => None,
        }
    }

    /// The last Unix millisecond that its IDs can carry, if they carry a time of their own, without a layout.
    const fn last_ms(self) -> Option<u64> {
        match self {
            Kind::Uuid7 | Kind::Ulid | Kind::UlidText | Kind::TypeId => Some(uuid7::LAST_MS),
            Kind::Uuid7Ordered => Some(uuid7::LAST_ORDERED_MS),
            _ => None,
        }
    }

    /// What it is for a wish.
    pub fn choice(self, wish: &Wish, now_ms: i64) -> Choice {
        let layout = match self {
            Kind::Snowflake | Kind::MaskedSnowflake => {
                Some(plan::propose(&wish.requirements, now_ms))
            }
            Kind::SnowflakeOfShard if wish.shards > 0 => Some(wish.layout_of_shards(now_ms)),
            _ => None,
        };
        let numbers = match self {
            Kind::Ticket => Some(LARGEST_SAFE),
            Kind::Sequence if wish.requirements.js_safe => Some(LARGEST_SAFE),
            Kind::Sequence => Some(i64::MAX.cast_unsigned()),
            _ => None,
        };
        let (layout, no_layout) = match layout {
            Some(Ok(layout)) => (Some(layout), None),
            Some(Err(none)) => (None, Some(none)),
            None => (None, None),
        };
        let misfit = self
            .unmet(wish)
            .map(str::to_owned)
            .or_else(|| no_layout.map(|none| none.to_string().lines().take(1).collect()))
            .or_else(|| self.ends_early(wish, now_ms))
            .or_else(|| self.too_few(wish, numbers));
        Choice { kind: self, misfit, layout, no_layout, numbers }
    }

    /// The first wish, other than for enough of them, that it does not meet.
    fn unmet(self, wish: &Wish) -> Option<&'static str> {
        let one_server = wish.servers() == 1;
        match self {
            Kind::SnowflakeOfShard if wish.shards == 0 => {
                return Some("No shards were requested.");
            }
            Kind::SnowflakeOfShard => {}
            _ if wish.shards > 0 => {
                return Some("You asked for shards; IDs of this kind contain none.");
            }
            _ => {}
        }
        let not_secret = match self {
            Kind::MaskedSnowflake | Kind::Uuid4 | Kind::RandomId => None,
            Kind::Snowflake | Kind::SnowflakeOfShard => {
                Some("An ID reveals its time and its server.")
            }
            Kind::Sequence | Kind::Ticket => {
                Some("An ID reveals the number of rows, and the next ID can be guessed.")
            }
            Kind::Uuid7 | Kind::Uuid7Ordered | Kind::Ulid | Kind::UlidText | Kind::TypeId => {
                Some("An ID reveals its time.")
            }
        };
        let unsorted = match self {
            Kind::Uuid4 | Kind::RandomId => Some(
                "New IDs do not sort after old ones.\nIf that is acceptable: sortable => false",
            ),
            Kind::Sequence | Kind::Ticket if !one_server => Some(
                "New IDs do not sort after older ones of other servers.\nIf that is acceptable: sortable => false",
            ),
            _ => None,
        };
        let sparse = match self {
            Kind::Ticket => None,
            Kind::Sequence if one_server => None,
            Kind::Sequence => Some("Servers that insert fewer rows leave gaps."),
            _ => Some("The IDs have gaps."),
        };
        let beyond_js = match self {
            Kind::MaskedSnowflake => Some(
                "A masked ID needs 64 bits; a number in JavaScript has 53.\nIf JavaScript can read it as text: js_safe => false",
            ),
            _ => None,
        };
        [
            (wish.secret, not_secret),
            (wish.sortable, unsorted),
            (wish.dense, sparse),
            (wish.requirements.js_safe, beyond_js),
        ]
        .into_iter()
        .find_map(|(asked, unmet)| unmet.filter(|_| asked))
    }

    /// Whether its time ends before the years that are asked for.
    fn ends_early(self, wish: &Wish, now_ms: i64) -> Option<String> {
        let last_ms = u128::from(self.last_ms()?);
        let wanted_ms =
            u128::try_from(now_ms).unwrap_or(0).saturating_add(wish.seconds() * MS_PER_SECOND);
        let year = 1970 + last_ms / (SECONDS_PER_YEAR * MS_PER_SECOND);
        (wanted_ms > last_ms).then(|| format!("The time field ends in the year {year}."))
    }

    /// Whether there are too few of them.
    fn too_few(self, wish: &Wish, numbers: Option<u64>) -> Option<String> {
        let ids = wish.ids();
        if self == Kind::Sequence && wish.servers() > MOST_NODES.into() {
            let most = grouped(MOST_NODES.into());
            return Some(format!("Sequences can be divided among at most {most} servers."));
        }
        if self == Kind::SnowflakeOfShard
            && u128::from(wish.shards) > wish.servers() * MOST_SHARDS as u128
        {
            let most = grouped(MOST_SHARDS as u128);
            return Some(format!("A server can have at most {most} shards."));
        }
        if let Some(numbers) = numbers.filter(|&numbers| u128::from(numbers) < ids) {
            return Some(format!(
                "There are {} IDs; {} are needed.",
                grouped(numbers.into()),
                grouped(ids)
            ));
        }
        let ids_per_second = wish.requirements.ids_per_second;
        if self == Kind::Uuid7Ordered && ids_per_second > MOMENTS_PER_SECOND {
            return Some(format!(
                "A server generates at most {} IDs per second.",
                grouped(MOMENTS_PER_SECOND.into())
            ));
        }
        let chance = collision_chance(ids as f64, self.random_bits(wish)?);
        (chance > MOST_COLLISION_CHANCE).then(|| {
            format!(
                "Too many random IDs: two of them are equal\nwith a probability of {}; at most {} is proposed.",
                probability(chance),
                probability(MOST_COLLISION_CHANCE)
            )
        })
    }
}

/// A probability as a person reads it.
fn probability(chance: f64) -> String {
    let percent = chance * 100.0;
    // One figure that is not zero.
    let decimals = (-percent.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{percent:.decimals$} %")
}

impl Choice {
    /// How many times the IDs that are asked for it has room for.
    pub fn headroom(&self, wish: &Wish) -> Option<f64> {
        match (self.layout, self.numbers) {
            (Some(layout), _) => {
                Some(layout.per_second() as f64 / wish.requirements.ids_per_second as f64)
            }
            (None, Some(numbers)) => Some(numbers as f64 / wish.ids().max(1) as f64),
            (None, None) => None,
        }
    }

    /// When there are no more of them, in Unix milliseconds; `None` if never, or after the year 9999.
    pub fn runs_out_ms(&self, wish: &Wish, now_ms: i64) -> Option<i64> {
        if let Some(layout) = self.layout {
            return Some(layout.runs_out_ms());
        }
        if let Some(last_ms) = self.kind.last_ms() {
            return i64::try_from(last_ms).ok().filter(|&end_ms| end_ms <= LAST_MS);
        }
        let a_second = wish.servers().saturating_mul(wish.requirements.ids_per_second.into());
        let length_ms = u128::from(self.numbers?) * MS_PER_SECOND / a_second.max(1);
        now_ms.checked_add(i64::try_from(length_ms).ok()?).filter(|&end_ms| end_ms <= LAST_MS)
    }
}

/// Every kind, the best first.
pub fn choices(wish: &Wish, now_ms: i64) -> Vec<Choice> {
    let mut choices = Kind::ALL.map(|kind| kind.choice(wish, now_ms)).to_vec();
    choices
        .sort_by_key(|choice| (choice.misfit.is_some(), choice.kind.size().bytes().round() as u64));
    choices
}
