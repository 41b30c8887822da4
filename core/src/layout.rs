//! What the bits of an ID mean: an epoch, a tick, and four fields of chosen width and order.
//!
//! A [`Layout`] is a small `Copy` value, checked once when it is built, with all masks and bounds
//! worked out then; packing and unpacking are shifts and masks that cannot fail or branch on the
//! order of the fields. IDs are handled as
//! `u64`; [`Layout::to_bigint`] and [`Layout::from_bigint`] are the only way to PostgreSQL's signed
//! `bigint`.

use std::fmt;

use jiff::Timestamp;

use crate::time::{NS_PER_MS, US_PER_MS, format_ms, unix_us};

/// Longest tick a layout may have, in milliseconds: one hour. Longer ones would make "ordered to a
/// tick" meaningless.
pub const MAX_TICK_MS: u32 = 3_600_000;

/// Widest a field other than time may be, in bits: each is shown as a PostgreSQL `integer`.
pub const MAX_NUMBER_BITS: u32 = 31;

/// Bits of a layout that stays positive in a `bigint`.
pub const SIGNED_BITS: u32 = 63;

/// The four things an ID can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Ticks since the layout's epoch; always the highest field.
    Time,
    /// The first half of the node's number, where a layout splits it.
    Datacenter,
    /// The node's number.
    Worker,
    /// Counts the IDs of one tick.
    Sequence,
}

impl Field {
    /// Every field, in the order the presets list them.
    pub const ALL: [Field; 4] = [Field::Time, Field::Datacenter, Field::Worker, Field::Sequence];

    /// The field's name in a layout text.
    pub const fn name(self) -> &'static str {
        match self {
            Field::Time => "time",
            Field::Datacenter => "datacenter",
            Field::Worker => "worker",
            Field::Sequence => "sequence",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a field sits. A field that the layout lacks has no bits and always reads zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct BitField {
    shift: u32,
    bits: u32,
}

impl BitField {
    #[inline]
    const fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    #[inline]
    const fn get(self, id: u64) -> u64 {
        (id >> self.shift) & self.mask()
    }

    #[inline]
    const fn put(self, value: u64) -> u64 {
        (value & self.mask()) << self.shift
    }
}

/// The meaning of an ID's bits. See the [module](self) for how it is used.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    epoch_us: i64,
    /// From the first tick to the end of the last.
    length_us: u64,
    /// The bits above the layout's.
    unused: u64,
    tick_ms: u32,
    unsigned: bool,
    time: BitField,
    datacenter: BitField,
    worker: BitField,
    sequence: BitField,
}

/// An ID taken apart. `tick` counts from the layout's epoch; an absent field is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Ticks since the layout's epoch.
    pub tick: u64,
    /// Datacenter number.
    pub datacenter: u32,
    /// Worker number.
    pub worker: u32,
    /// Sequence within the tick.
    pub sequence: u32,
}

/// Why a layout can't be used. `Display` is the fact in one line, in PostgreSQL's style.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A single word that is no preset.
    #[error("there is no layout named \"{0}\"")]
    UnknownName(String),
    /// A word of the text that is neither an option nor a field.
    #[error("\"{0}\" is not a valid part of a layout")]
    BadWord(String),
    /// An epoch that is no date, time or count of milliseconds.
    #[error("epoch \"{0}\" is not a date, a UTC time or a number of milliseconds")]
    BadEpoch(String),
    /// A tick that is no duration or out of bounds.
    #[error("tick \"{0}\" is not a whole number of ms or s between 1ms and 3600s")]
    BadTick(String),
    /// A width that is no number.
    #[error("width \"{0}\" of field \"{1}\" is not a whole number")]
    BadWidth(String, Field),
    /// Something that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Something is there twice.
    #[error("{0} is given twice")]
    Repeated(&'static str),
    /// A field of no bits.
    #[error("field \"{0}\" is zero bits wide")]
    ZeroWidth(Field),
    /// A field wider than what it is shown as.
    #[error("field \"{field}\" is {bits} bits wide, more than {max}")]
    TooWide {
        /// The field.
        field: Field,
        /// Its width.
        bits: u32,
        /// The widest it may be.
        max: u32,
    },
    /// More bits than an ID has.
    #[error("the fields add up to {total} bits, more than {max}")]
    TooManyBits {
        /// Sum of the widths.
        total: u32,
        /// 63, or 64 for an unsigned layout.
        max: u32,
    },
    /// Time does not come first.
    #[error("\"time\" must be the first field, so that IDs sort by time")]
    TimeNotFirst,
    /// The time field reaches past year 9999.
    #[error("the time field extends beyond the year 9999")]
    EndsTooLate,
    /// The epoch has not come yet.
    #[error("the epoch {} is in the future", format_ms(*.0))]
    EpochInFuture(i64),
    /// The time field is used up.
    #[error("the layout is exhausted since {}", format_ms(*.0))]
    Exhausted(i64),
}

/// Why an ID, a field or an instant does not fit a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The ID has bits above the layout's.
    #[error("snowflake {id} is out of range for the layout")]
    Id {
        /// The ID as PostgreSQL shows it.
        id: i64,
        /// Bits of the layout.
        bits: u32,
    },
    /// A number too large for its field.
    #[error("{field} {value} is out of range")]
    Number {
        /// The field.
        field: Field,
        /// The number asked for.
        value: i64,
        /// The largest that fits; zero where the layout lacks the field.
        max: u32,
    },
    /// An instant outside the layout's years.
    #[error("timestamp is out of range for the layout")]
    Instant {
        /// First millisecond of the layout.
        first_ms: i64,
        /// Last millisecond of the layout.
        last_ms: i64,
    },
}

/// Why no ID can be made at a time of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsideLayout {
    /// The epoch has not come yet.
    BeforeEpoch,
    /// The time field is used up.
    RanOut,
}

impl Layout {
    /// Builds a layout from its fields, highest first, checking everything that does not depend on
    /// the time of day.
    ///
    /// # Errors
    /// Any of [`LayoutError`] but the last two, which [`Layout::check_at`] finds.
    pub fn new(
        epoch_ms: i64,
        tick_ms: u32,
        unsigned: bool,
        fields: &[(Field, u32)],
    ) -> Result<Layout, LayoutError> {
        if tick_ms == 0 || tick_ms > MAX_TICK_MS {
            return Err(LayoutError::BadTick(format!("{tick_ms}ms")));
        }
        let max_bits = if unsigned { u64::BITS } else { SIGNED_BITS };
        let mut layout = Layout {
            epoch_us: 0,
            length_us: 0,
            unused: 0,
            tick_ms,
            unsigned,
            time: BitField::default(),
            datacenter: BitField::default(),
            worker: BitField::default(),
            sequence: BitField::default(),
        };
        let mut total: u32 = 0;
        for &(field, bits) in fields.iter().rev() {
            let max = if field == Field::Time { max_bits - 1 } else { MAX_NUMBER_BITS };
            if bits == 0 {
                return Err(LayoutError::ZeroWidth(field));
            }
            if bits > max {
                return Err(LayoutError::TooWide { field, bits, max });
            }
            let bit_field = layout.bit_field_mut(field);
            if bit_field.bits != 0 {
                return Err(LayoutError::Repeated(field.name()));
            }
            *bit_field = BitField { shift: total, bits };
            total += bits;
        }
        if layout.time.bits == 0 {
            return Err(LayoutError::Missing("field \"time\""));
        }
        if layout.sequence.bits == 0 {
            return Err(LayoutError::Missing("field \"sequence\""));
        }
        if fields[0].0 != Field::Time {
            return Err(LayoutError::TimeNotFirst);
        }
        if total > max_bits {
            return Err(LayoutError::TooManyBits { total, max: max_bits });
        }
        // i128 so that a wide field times a long tick can't wrap before it is refused.
        let end_ms = i128::from(epoch_ms) + (1i128 << layout.time.bits) * i128::from(tick_ms);
        if end_ms > i128::from(Timestamp::MAX.as_millisecond())
            || epoch_ms < Timestamp::MIN.as_millisecond()
        {
            return Err(LayoutError::EndsTooLate);
        }
        // What ends by the year 9999 fits in microseconds, too.
        layout.epoch_us = epoch_ms * US_PER_MS;
        layout.length_us = (layout.time.mask() + 1) * layout.tick_us();
        layout.unused = u64::MAX.checked_shl(total).unwrap_or(0);
        Ok(layout)
    }

    /// Checks what depends on the time of day: the epoch has come and the time field is not used up.
    ///
    /// # Errors
    /// [`LayoutError::EpochInFuture`] and [`LayoutError::Exhausted`].
    pub fn check_at(&self, now_ms: i64) -> Result<(), LayoutError> {
        if now_ms < self.epoch_ms() {
            return Err(LayoutError::EpochInFuture(self.epoch_ms()));
        }
        if now_ms >= self.runs_out_ms() {
            return Err(LayoutError::Exhausted(self.runs_out_ms()));
        }
        Ok(())
    }

    const fn bit_field(&self, field: Field) -> BitField {
        match field {
            Field::Time => self.time,
            Field::Datacenter => self.datacenter,
            Field::Worker => self.worker,
            Field::Sequence => self.sequence,
        }
    }

    const fn bit_field_mut(&mut self, field: Field) -> &mut BitField {
        match field {
            Field::Time => &mut self.time,
            Field::Datacenter => &mut self.datacenter,
            Field::Worker => &mut self.worker,
            Field::Sequence => &mut self.sequence,
        }
    }

    /// The layout's first instant, in Unix milliseconds.
    #[inline]
    pub const fn epoch_ms(&self) -> i64 {
        self.epoch_us / US_PER_MS
    }

    /// Length of a tick in milliseconds.
    #[inline]
    pub const fn tick_ms(&self) -> u32 {
        self.tick_ms
    }

    /// Length of a tick in microseconds.
    #[inline]
    const fn tick_us(&self) -> u64 {
        self.tick_ms as u64 * US_PER_MS as u64
    }

    /// Length of a tick in nanoseconds.
    #[inline]
    pub const fn tick_ns(&self) -> u64 {
        self.tick_ms as u64 * NS_PER_MS
    }

    /// Whether the layout may use bit 63, the sign of a `bigint`.
    #[inline]
    pub const fn is_unsigned(&self) -> bool {
        self.unsigned
    }

    /// Width of a field in bits; zero if the layout lacks it.
    #[inline]
    pub const fn bits(&self, field: Field) -> u32 {
        self.bit_field(field).bits
    }

    /// Lowest bit of a field.
    #[inline]
    pub const fn shift(&self, field: Field) -> u32 {
        self.bit_field(field).shift
    }

    /// Bits of all fields together.
    #[inline]
    pub const fn total_bits(&self) -> u32 {
        self.time.shift + self.time.bits
    }

    /// The fields that the layout has, highest first.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> =
            Field::ALL.into_iter().filter(|&field| self.bits(field) > 0).collect();
        fields.sort_by_key(|&field| std::cmp::Reverse(self.shift(field)));
        fields
    }

    /// Largest number that fits a field other than time.
    #[inline]
    pub const fn max_number(&self, field: Field) -> u32 {
        self.bit_field(field).mask() as u32
    }

    /// IDs that one worker can make within one tick.
    #[inline]
    pub const fn per_tick(&self) -> u64 {
        1 << self.sequence.bits
    }

    /// IDs that one worker can make in one second, rounded down.
    pub const fn per_second(&self) -> u64 {
        self.per_tick() * 1000 / self.tick_ms as u64
    }

    /// Nodes that can generate side by side: datacenters times workers.
    pub const fn nodes(&self) -> u64 {
        1 << (self.datacenter.bits + self.worker.bits)
    }

    /// Ticks that can be generated. A 64-bit layout generates only in its first half, where a
    /// `bigint` is positive and so sorts by time.
    #[inline]
    pub const fn ticks(&self) -> u64 {
        let sign_bit = if self.total_bits() > SIGNED_BITS { 1 } else { 0 };
        1 << (self.time.bits - sign_bit)
    }

    /// First millisecond at which no ID can be generated any more.
    pub const fn runs_out_ms(&self) -> i64 {
        self.tick_start_ms(self.ticks())
    }

    /// Last millisecond that the layout can decode; past [`Layout::runs_out_ms`] where bit 63 is
    /// used.
    pub const fn last_ms(&self) -> i64 {
        self.tick_start_ms(self.time.mask() + 1) - 1
    }

    /// First microsecond of a tick.
    #[inline]
    const fn tick_start_us(&self, tick: u64) -> i64 {
        self.epoch_us + (tick * self.tick_us()) as i64
    }

    /// First millisecond of a tick.
    #[inline]
    pub const fn tick_start_ms(&self, tick: u64) -> i64 {
        self.tick_start_us(tick) / US_PER_MS
    }

    /// First nanosecond of a tick; the first or last that there is for one before 1970 or after 2554.
    #[inline]
    pub const fn tick_start_ns(&self, tick: u64) -> u64 {
        let start_ms = self.tick_start_ms(tick);
        if start_ms < 0 { 0 } else { start_ms.cast_unsigned().saturating_mul(NS_PER_MS) }
    }

    /// The tick that holds an instant, in Unix microseconds.
    ///
    /// # Errors
    /// [`RangeError::Instant`] before the epoch and after the last tick.
    #[inline]
    pub const fn tick_at(&self, unix_us: i64) -> Result<u64, RangeError> {
        // Unsigned, an instant before the epoch lies after all ticks, and so does one so far away
        // that the difference wraps.
        let since_us = unix_us.wrapping_sub(self.epoch_us).cast_unsigned();
        if since_us >= self.length_us {
            return Err(RangeError::Instant { first_ms: self.epoch_ms(), last_ms: self.last_ms() });
        }
        // Most ticks are one millisecond, and a division by what is not known beforehand costs more
        // than all the rest.
        let since_ms = since_us / US_PER_MS.cast_unsigned();
        Ok(if self.tick_ms == 1 { since_ms } else { since_ms / self.tick_ms as u64 })
    }

    /// The tick that a clock shows, if IDs can be made then.
    ///
    /// # Errors
    /// [`OutsideLayout`] before the epoch and after the last tick that can be generated.
    #[inline]
    pub const fn clock_tick(&self, unix_ns: u64) -> Result<u64, OutsideLayout> {
        match self.tick_at(unix_us(unix_ns)) {
            Ok(tick) if tick < self.ticks() => Ok(tick),
            _ if unix_us(unix_ns) < self.epoch_us => Err(OutsideLayout::BeforeEpoch),
            _ => Err(OutsideLayout::RanOut),
        }
    }

    /// The first tick that starts at an instant or later: zero before the epoch, the number of
    /// ticks after the last one.
    pub const fn tick_from(&self, unix_ms: i64) -> u64 {
        let since_ms = unix_ms.saturating_sub(self.epoch_ms());
        if since_ms <= 0 {
            return 0;
        }
        let tick = since_ms.cast_unsigned().div_ceil(self.tick_ms as u64);
        if tick < self.ticks() { tick } else { self.ticks() }
    }

    /// The tick of an ID. Time is the highest field, so it needs no mask.
    #[inline]
    const fn tick_in(&self, id: u64) -> u64 {
        id >> self.time.shift
    }

    /// Puts an ID together from numbers that are known to fit.
    #[inline]
    pub const fn pack(&self, parts: Parts) -> u64 {
        self.min_of(parts.tick)
            | self.datacenter.put(parts.datacenter as u64)
            | self.worker.put(parts.worker as u64)
            | self.sequence.put(parts.sequence as u64)
    }

    /// Takes an ID of this layout apart.
    #[inline]
    pub const fn unpack(&self, id: u64) -> Parts {
        Parts {
            tick: self.tick_in(id),
            datacenter: self.datacenter.get(id) as u32,
            worker: self.worker.get(id) as u32,
            sequence: self.sequence.get(id) as u32,
        }
    }

    /// First microsecond of the tick in which an ID was made, since the Unix epoch.
    #[inline]
    pub const fn created_us(&self, id: u64) -> i64 {
        self.tick_start_us(self.tick_in(id))
    }

    /// Smallest ID of a tick of this layout, whatever the node.
    #[inline]
    pub const fn min_of(&self, tick: u64) -> u64 {
        tick << self.time.shift
    }

    /// Largest ID of a tick, whatever the node.
    #[inline]
    pub const fn max_of(&self, tick: u64) -> u64 {
        self.min_of(tick) | ((1 << self.time.shift) - 1)
    }

    /// The node's bits, ready to be combined with a position.
    ///
    /// # Errors
    /// [`RangeError::Number`] for a datacenter or worker that does not fit.
    pub fn node_bits(&self, datacenter: i64, worker: i64) -> Result<u64, RangeError> {
        Ok(self.datacenter.put(self.number(Field::Datacenter, datacenter)?.into())
            | self.worker.put(self.number(Field::Worker, worker)?.into()))
    }

    /// The bits of an ID that hold the datacenter and the worker.
    pub const fn node_mask(&self) -> u64 {
        self.datacenter.put(u64::MAX) | self.worker.put(u64::MAX)
    }

    /// Checks a number against the width of its field.
    ///
    /// # Errors
    /// [`RangeError::Number`] if it is negative or too large.
    pub fn number(&self, field: Field, value: i64) -> Result<u32, RangeError> {
        let max = self.max_number(field);
        u32::try_from(value).ok().filter(|&number| number <= max).ok_or(RangeError::Number {
            field,
            value,
            max,
        })
    }

    /// A position as an ID of the node with these bits.
    #[inline]
    pub const fn id_at(&self, position: u64, node_bits: u64) -> u64 {
        self.min_of(self.tick_of(position)) | self.sequence.put(position) | node_bits
    }

    /// Distance between the IDs of neighbouring positions of one tick.
    #[inline]
    pub const fn stride(&self) -> u64 {
        1 << self.sequence.shift
    }

    /// The position of an ID among its worker's.
    #[inline]
    pub const fn position_of(&self, id: u64) -> u64 {
        self.first_position(self.tick_in(id)) | self.sequence.get(id)
    }

    /// First position of a tick.
    #[inline]
    pub const fn first_position(&self, tick: u64) -> u64 {
        tick << self.sequence.bits
    }

    /// The tick that a position belongs to.
    #[inline]
    pub const fn tick_of(&self, position: u64) -> u64 {
        position >> self.sequence.bits
    }

    /// An ID as PostgreSQL's `bigint`: the same 64 bits.
    #[inline]
    pub const fn to_bigint(id: u64) -> i64 {
        id.cast_signed()
    }

    /// A `bigint` as an ID of this layout.
    ///
    /// # Errors
    /// [`RangeError::Id`] if bits above the layout's are set, as in a negative number read with a
    /// 63-bit layout.
    #[inline]
    pub const fn from_bigint(&self, bigint: i64) -> Result<u64, RangeError> {
        let id = bigint.cast_unsigned();
        if id & self.unused != 0 {
            return Err(RangeError::Id { id: bigint, bits: self.total_bits() });
        }
        Ok(id)
    }
}
