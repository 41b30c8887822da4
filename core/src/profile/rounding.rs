//! Whether numbers lost their last digits on the way, to something that holds fewer: a double precision number, as
//! JavaScript and many readers of JSON use for all numbers, or a spreadsheet, which keeps 15 digits.
//!
//! Up to 2^53 a double holds every integer. Above, one in 2, 4, 8 and so on is a double. JavaScript writes a double with
//! as few digits as tell it from others, 17 at most, and zeros after them.

use crate::layout::{Field, Layout, SIGNED_BITS};

/// Fewer numbers may look rounded by chance.
const ENOUGH: u64 = 20;
/// The digits that a spreadsheet keeps.
const SPREADSHEET_DIGITS: u32 = 15;
/// The digits that a double is written with at most.
const DOUBLE_DIGITS: u32 = 17;
/// The largest integer below which all integers are doubles.
const LARGEST_SAFE: i64 = 1 << f64::MANTISSA_DIGITS;

/// What numbers went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounded {
    /// A double, stored as the integer that it is; all are multiples of this.
    Double(u64),
    /// A double that was written as JavaScript does, with 17 digits at most and zeros after them.
    DoubleAsText,
    /// A spreadsheet; all are multiples of this.
    Spreadsheet(u64),
}

/// What all numbers above 2^53 have in common.
#[derive(Clone, Debug)]
pub struct Rounding {
    /// The bits of the lowest field of an ID.
    lowest_field: i64,
    count: u64,
    /// The lowest field of the first number.
    first: i64,
    /// Whether another number has another.
    varies: bool,
    /// Every bit that any of the numbers has.
    bits: i64,
    are_doubles: bool,
    are_doubles_as_text: bool,
    are_spreadsheets: bool,
    /// The smallest power of ten of which a spreadsheet leaves multiples.
    unit: u64,
}

impl Rounding {
    /// Nothing noted yet.
    pub fn new(layout: &Layout) -> Rounding {
        let lowest = [Field::Time, Field::Datacenter, Field::Worker, Field::Sequence]
            .into_iter()
            .filter(|&field| layout.shift(field) == 0)
            .map(|field| layout.bits(field))
            .max()
            .unwrap_or(0);
        Rounding {
            lowest_field: i64::MAX >> (SIGNED_BITS - lowest.min(SIGNED_BITS)),
            count: 0,
            first: 0,
            varies: false,
            bits: 0,
            are_doubles: true,
            are_doubles_as_text: true,
            are_spreadsheets: true,
            unit: u64::MAX,
        }
    }

    /// The next number. Those that a double holds in any case are left out.
    #[inline]
    pub fn note(&mut self, number: i64) {
        if number <= LARGEST_SAFE {
            return;
        }
        if self.count == 0 {
            self.first = number & self.lowest_field;
        }
        self.count += 1;
        if self.are_doubles || self.are_doubles_as_text || self.are_spreadsheets {
            self.compare(number);
        }
    }

    fn compare(&mut self, number: i64) {
        self.varies |= number & self.lowest_field != self.first;
        self.bits |= number;
        self.are_doubles &= number as f64 as i64 == number;
        // Most columns differ from this in their first rows, so that few numbers are written out.
        self.are_doubles_as_text = self.are_doubles_as_text && is_double_as_text(number);
        let unit = unit(number, SPREADSHEET_DIGITS);
        self.unit = self.unit.min(unit);
        self.are_spreadsheets &= number.cast_unsigned().is_multiple_of(unit);
    }

    /// What the numbers went through; `None` if that cannot be told, as where all sequences are zero.
    pub fn found(&self) -> Option<Rounded> {
        if self.count < ENOUGH {
            None
        } else if self.are_spreadsheets {
            Some(Rounded::Spreadsheet(self.unit))
        } else if self.are_doubles_as_text && !self.are_doubles {
            Some(Rounded::DoubleAsText)
        } else if self.are_doubles && self.varies {
            Some(Rounded::Double(1 << self.bits.trailing_zeros()))
        } else {
            None
        }
    }
}

/// The power of ten of which a number is a multiple if it has only so many significant digits.
fn unit(number: i64, digits: u32) -> u64 {
    10u64.pow((number.ilog10() + 1).saturating_sub(digits))
}

/// Whether a double may be written so. Where it has zeros for digits that are lost, they show it: which of the shortest
/// texts is written differs between programs.
fn is_double_as_text(number: i64) -> bool {
    match unit(number, DOUBLE_DIGITS) {
        1 => (number as f64).to_string() == number.to_string(),
        unit => number.cast_unsigned().is_multiple_of(unit),
    }
}
