//! SQL functions that return many snowflakes at once, as an array or as a set.

use std::mem::MaybeUninit;

use id_gen_core::frontier::{ClaimSize, Run};
use id_gen_core::layout::Layout;
use id_gen_core::lead::{Lead, LeadLimit};
use pgrx::prelude::*;

use crate::error::{Error, Reason};
use crate::generate::backend;
use crate::generate::claim::{self, Claim};
use crate::pg::fmgr::{Call, int8};
use crate::shared::{SharedState, memory};
use crate::sql::function::sql_function;

/// How many IDs a set claims at a time: enough to forget the lock, few enough that a reader who
/// stops early wastes little.
const SET_CHUNK: u64 = 4096;

/// The most elements that fit an array of `bigint`: PostgreSQL allocates less than 1 GB at once
/// (`MaxAllocSize`, `utils/memutils.h`), of which the header takes some.
const MAX_ARRAY: i32 = ((0x3fff_ffff - ARRAY_HEADER) / size_of::<i64>()) as i32;
/// Header of an array of one dimension without NULLs (`ARR_OVERHEAD_NONULLS`, `utils/array.h`).
const ARRAY_HEADER: usize = size_of::<pg_sys::ArrayType>() + 2 * size_of::<i32>();

sql_function! {
    /// `snowflake_next_array(count integer) → bigint[]`
    fn snowflake_next_array(call) {
        let count = count(call.int4(0))?;
        if count > MAX_ARRAY {
            return Err(Reason::ArrayTooLarge { count, max: MAX_ARRAY }.into());
        }
        // The first claim comes before the memory, so that a call that is refused costs nothing.
        let mut remaining = u64::from(count.unsigned_abs());
        let mut part = next_part(remaining, count)?;
        let (array, mut elements) = new_array(count);
        loop {
            remaining -= part.run.count;
            let (filled, rest) = elements.split_at_mut(part.run.count as usize);
            fill(filled, &part);
            elements = rest;
            if remaining == 0 {
                return Ok(array);
            }
            part = next_part(remaining, count)?;
        }
    }
}

/// The least wait that is proposed: the default of `id_gen.max_wait`.
const LEAST_PROPOSED_WAIT_MS: u32 = 1000;

/// A part of an array. If the whole needs more time than the settings give, the error says that, as no later call succeeds.
fn next_part(remaining: u64, count: i32) -> Result<Claim, Error> {
    claim::next_batch(ClaimSize::Batch { remaining, chunk: remaining }).map_err(|error| {
        let &Reason::Ahead { lead: Lead { max_lead_ms, .. }, max_wait_ms, .. } = error.reason()
        else {
            return error;
        };
        let Ok(layout) = memory::attach().and_then(SharedState::layout) else { return error };
        let most = LeadLimit::of_ms(layout, max_lead_ms).for_bulk(layout).end(layout, 0);
        // Each part may wait, so a wait of a tick or more suffices for any number of them.
        if u64::from(count.unsigned_abs()) <= most || max_wait_ms >= layout.tick_ms() {
            return error;
        }
        let needed_wait_ms = layout.tick_ms().max(LEAST_PROPOSED_WAIT_MS);
        Reason::TooManyAtOnce { count, most, max_lead_ms, max_wait_ms, needed_wait_ms }.into()
    })
}

/// Writes the IDs of a claim: tick by tick, so that within a tick there is only an addition.
fn fill(elements: &mut [MaybeUninit<i64>], claim: &Claim) {
    let stride = claim.layout.stride();
    let mut elements = elements;
    let mut rest = Some(claim.run);
    while let Some(run) = rest {
        let (within_tick, after) = run.split_tick(claim.layout);
        let (filled, others) = elements.split_at_mut(within_tick.count as usize);
        let first = claim.layout.id_at(within_tick.start, claim.node_bits);
        for (index, element) in (0u64..).zip(filled) {
            element.write(Layout::to_bigint(first.wrapping_add(index.wrapping_mul(stride))));
        }
        elements = others;
        rest = after;
    }
}

/// An array of `bigint`, its elements not yet set.
fn new_array(count: i32) -> (pg_sys::Datum, &'static mut [MaybeUninit<i64>]) {
    let length = count.unsigned_abs() as usize;
    let size = ARRAY_HEADER + length * size_of::<i64>();
    // SAFETY: `size` bytes are allocated, and are below MaxAllocSize, so they fit an i32. The
    // header is followed by one dimension and one lower bound, then by the elements, aligned
    // because ARRAY_HEADER is a multiple of 8. They are not set yet, as the slice's type says; it is
    // used only within the call that PostgreSQL keeps the memory for.
    unsafe {
        let array: *mut pg_sys::ArrayType = pg_sys::palloc(size).cast();
        pgrx::set_varsize_4b(array.cast(), size as i32);
        (*array).ndim = 1;
        (*array).dataoffset = 0;
        (*array).elemtype = pg_sys::INT8OID;
        let dimensions: *mut i32 = array.add(1).cast();
        dimensions.write(count);
        dimensions.add(1).write(1);
        let elements = array.cast::<u8>().add(ARRAY_HEADER).cast();
        (pg_sys::Datum::from(array), std::slice::from_raw_parts_mut(elements, length))
    }
}

/// What a set keeps between its rows.
#[derive(Clone, Copy)]
struct Set {
    /// IDs still to come, those at hand included.
    remaining: u64,
    /// The next ID of the tick at hand.
    next: u64,
    /// How many of that tick are left.
    left: u64,
    stride: u64,
    /// Claimed positions of later ticks.
    claimed: Option<(Claim, Run)>,
    /// How many to claim next.
    chunk: u64,
    /// This session's claims and the server's generation as of the last row: if either has
    /// changed, what is left was overtaken.
    as_of: (u64, u64),
}

impl Set {
    fn new(count: u64) -> Set {
        Set {
            remaining: count,
            next: 0,
            left: 0,
            stride: 0,
            claimed: None,
            chunk: SET_CHUNK,
            as_of: NOT_BEGUN,
        }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<u64>, Error> {
        if self.remaining == 0 {
            return Ok(None);
        }
        if self.left == 0 || backend::progress() != self.as_of {
            self.next_tick()?;
        }
        let id = self.next;
        self.next = id.wrapping_add(self.stride);
        self.left -= 1;
        self.remaining -= 1;
        Ok(Some(id))
    }

    #[cold]
    fn next_tick(&mut self) -> Result<(), Error> {
        let overtaken = backend::progress() != self.as_of;
        let (claim, run) = match self.claimed.take() {
            Some(claimed) if !overtaken => claimed,
            _ => {
                let claim = claim::next_rows(self.next_size(overtaken))?;
                (claim, claim.run)
            }
        };
        let (tick, rest) = run.split_tick(claim.layout);
        self.claimed = rest.map(|rest| (claim, rest));
        self.next = claim.layout.id_at(tick.start, claim.node_bits);
        self.left = tick.count;
        self.stride = claim.layout.stride();
        self.as_of = backend::progress();
        Ok(())
    }

    /// A set that runs alone claims in chunks. One whose session generates otherwise between its
    /// rows can't use most of a chunk, so it begins again with one, and doubles.
    fn next_size(&mut self, overtaken: bool) -> ClaimSize {
        self.chunk =
            if overtaken && self.as_of != NOT_BEGUN { 1 } else { (self.chunk * 2).min(SET_CHUNK) };
        if self.chunk < SET_CHUNK {
            ClaimSize::Block(self.chunk.min(self.remaining))
        } else {
            ClaimSize::Batch { remaining: self.remaining, chunk: SET_CHUNK }
        }
    }
}

/// [`Set::as_of`] before the first row: no session has got that far with nothing claimed.
const NOT_BEGUN: (u64, u64) = (0, 0);

sql_function! {
    /// `snowflake_next_batch(count integer) → SETOF bigint`, a row at a time.
    fn snowflake_next_batch(call) {
        rows(call, Set::new, |set| Ok(set.next()?.map(|id| int8(Layout::to_bigint(id)))))
    }
}

/// The next row of a set of as many rows as the first argument says, or its end. What is kept between rows must have
/// nothing to drop.
#[inline(always)]
pub(super) fn rows<S: Copy>(
    call: &mut Call,
    begin: impl FnOnce(u64) -> S,
    next: impl FnOnce(&mut S) -> Result<Option<pg_sys::Datum>, Error>,
) -> Result<pg_sys::Datum, Error> {
    let fcinfo = call.as_fcinfo();
    if call.kept().is_null() {
        if call.result_set().is_none() {
            return Err(Reason::NoSet.into());
        }
        let count = count(call.int4(0))?;
        // SAFETY: the first call of a set, in a place that takes one. What it keeps is
        // allocated where it lives until the set ends, and has nothing to drop.
        unsafe {
            let context = &mut *pg_sys::init_MultiFuncCall(fcinfo);
            let set: *mut S =
                pg_sys::MemoryContextAlloc(context.multi_call_memory_ctx, size_of::<S>()).cast();
            set.write(begin(u64::from(count.unsigned_abs())));
            context.user_fctx = set.cast();
        }
    }
    // SAFETY: set up by the first call, above.
    let context = unsafe { &mut *pg_sys::per_MultiFuncCall(fcinfo) };
    // SAFETY: as above, and nothing else refers to it.
    let set = unsafe { &mut *context.user_fctx.cast::<S>() };
    let (datum, state) = match next(set)? {
        Some(datum) => (datum, pg_sys::ExprDoneCond::ExprMultipleResult),
        None => {
            // SAFETY: as above; frees the set.
            unsafe { pg_sys::end_MultiFuncCall(fcinfo, context) };
            (call.null(), pg_sys::ExprDoneCond::ExprEndResult)
        }
    };
    if let Some(info) = call.result_set() {
        info.isDone = state;
    }
    Ok(datum)
}

fn count(argument: Option<i32>) -> Result<i32, Error> {
    match argument {
        None => Err(Reason::NullCount.into()),
        Some(count) if count <= 0 => Err(Reason::BadCount(count).into()),
        Some(count) => Ok(count),
    }
}
