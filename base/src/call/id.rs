//! A `bigint` or a `uuid`, as the number that its bits are: for functions that do the same with both.

use pgrx::pg_sys;

use crate::pg::fmgr::{self, Call, int8};

/// What such functions need to know of either. A `bigint` counts without its sign.
pub trait Id: Copy + Default + Into<u128> {
    /// How many bits it has.
    const BITS: u32;
    /// Its type in SQL.
    const TYPE_NAME: &str;
    /// One of them, as one types it.
    const EXAMPLE: &str;

    /// The first argument.
    fn argument(call: &Call) -> Option<Self>;
    /// The lowest bits of a number.
    fn of_number(number: u128) -> Self;
    /// The result. Its callers must have nothing to drop.
    fn datum(self) -> pg_sys::Datum;
}

impl Id for u64 {
    const BITS: u32 = u64::BITS;
    const TYPE_NAME: &str = "bigint";
    const EXAMPLE: &str = "1";

    #[inline(always)]
    fn argument(call: &Call) -> Option<u64> {
        call.int8(0).map(i64::cast_unsigned)
    }

    #[inline(always)]
    fn of_number(number: u128) -> u64 {
        number as u64
    }

    #[inline(always)]
    fn datum(self) -> pg_sys::Datum {
        int8(self.cast_signed())
    }
}

impl Id for u128 {
    const BITS: u32 = u128::BITS;
    const TYPE_NAME: &str = "uuid";
    const EXAMPLE: &str = "gen_random_uuid()";

    #[inline(always)]
    fn argument(call: &Call) -> Option<u128> {
        call.uuid(0).map(u128::from_be_bytes)
    }

    #[inline(always)]
    fn of_number(number: u128) -> u128 {
        number
    }

    #[inline(always)]
    fn datum(self) -> pg_sys::Datum {
        fmgr::uuid(self.to_be_bytes())
    }
}
