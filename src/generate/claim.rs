//! The slow path: take the lock, claim positions, and if that is denied, do what it takes and try
//! again.
//!
//! Where no session may hold IDs (`id_gen.max_block_size = 1`), a claim of one ID also opens the block that sessions
//! share for the rest of the tick ([`id_gen_core::shared_block`]).
//!
//! **Locking.** Nothing logs, sleeps or writes while the lock is held: [`claim_locked`] only computes,
//! and what it found is logged, waited for or written after the lock is released.

use std::sync::atomic::Ordering::Relaxed;

use id_gen_core::frontier::{Bound, ClaimError, ClaimSize, Run};
use id_gen_core::layout::Layout;
use id_gen_core::lead::{LeadLimit, bulk_threshold};
use id_gen_core::planted::Fault;
use id_gen_core::time::unix_us;
use id_gen_core::{block, shared_block};

use crate::durable;
use crate::error::{Error, Reason};
use crate::generate::backend::{self, Backend};
use crate::generate::wait::{self, Wait};
use crate::generate::{clocks, keeper, reserve, startup, test_server};
use crate::os::{clock, test_stream};
use crate::pg::lwlock::LwLockGuard;
use crate::shared::{SharedState, Slot, State};

/// Positions handed to this process, and what it takes to make IDs of them.
#[derive(Clone, Copy)]
pub struct Claim {
    /// The layout of the server.
    pub layout: &'static Layout,
    /// The positions.
    pub run: Run,
    /// The node's bits.
    pub node_bits: u64,
    now_tick: u64,
    generation: u64,
    max_block: u64,
}

/// What a session asks for.
#[derive(Clone, Copy, Debug)]
struct Request {
    size: ClaimSize,
    /// Handed out row by row, so that other sessions may generate in between.
    by_row: bool,
    /// This session loads in bulk: it leaves room to sessions that ask for few.
    bulk: bool,
    /// The clocks were checked just before.
    clocks_checked: bool,
}

impl Request {
    #[inline]
    const fn new(size: ClaimSize, by_row: bool) -> Request {
        Request { size, by_row, bulk: false, clocks_checked: false }
    }

    /// What the session gets at most of what it asks for: where the order across sessions is strict,
    /// one row at a time.
    #[inline]
    fn limited(self, max_block: u64) -> ClaimSize {
        match self.size {
            ClaimSize::Batch { .. } if self.by_row && max_block == 1 => ClaimSize::Block(1),
            ClaimSize::Block(size) => ClaimSize::Block(size.min(max_block)),
            batch @ ClaimSize::Batch { .. } => batch,
        }
    }

    /// Whether the request counts as bulk: this session takes more than its share of the tick.
    #[inline]
    fn is_bulk(self, layout: &Layout, slot: &Slot, now_tick: u64) -> bool {
        let (ClaimSize::Block(count) | ClaimSize::Batch { remaining: count, .. }) = self.size;
        let taken = slot.taken_in_tick(now_tick).saturating_add(count);
        self.bulk || taken > bulk_threshold(layout)
    }
}

/// Why a claim was denied. Small, so that a claim that is granted costs nothing for it.
#[derive(Clone, Copy, Debug)]
enum Denial {
    /// The server has no valid layout.
    NoLayout,
    /// The server has no number, or one that does not fit.
    NoNumber,
    /// No ID was made yet since the server started.
    NotStarted,
    /// The clocks have to be checked first.
    ClocksUnchecked,
    /// The clock is outside the layout's time, or all of that is reserved.
    OutsideLayout,
    /// The reservation has to be extended first.
    Unreserved,
    /// The position is too far ahead of the clock.
    Ahead { position: u64, limit: LeadLimit },
}

/// Takes an ID of the shared block, or claims a new block and takes its first ID, if that is granted at once.
/// Nothing here raises an error or logs, so it needs no guard.
#[inline(never)]
pub fn next_id_at_once() -> Option<u64> {
    if test_stream::stream().is_some() {
        return None;
    }
    let backend = backend::up_to_date()?;
    let shared = backend.shared;
    if let Some(id) = backend::take_shared(backend) {
        return Some(id);
    }
    let state = if shared.block.is_used() {
        // When a tick is over, all sessions come here at once. The first opens the next block for the others,
        // which would close it if they took the lock too.
        match shared.lock_or_wait() {
            Some(state) => state,
            None => match backend::take_shared(backend) {
                Some(id) => return Some(id),
                None => shared.lock(),
            },
        }
    } else {
        shared.lock()
    };
    next_block(backend, |request, now_ns| attempt_locked(backend, state, request, now_ns)).ok()
}

/// Claims a new block and takes its first ID.
///
/// # Errors
/// Whatever forbids this server to generate now.
pub fn next_id() -> Result<u64, Error> {
    let backend = backend::attach()?;
    test_server::before_snowflake()?;
    next_block(backend, |request, now_ns| claim(backend, request, now_ns))
}

#[inline(always)]
fn next_block<E>(
    Backend { shared, slot }: Backend,
    claim: impl FnOnce(Request, u64) -> Result<Claim, E>,
) -> Result<u64, E> {
    let now_ns = clock::wall_ns();
    let used_up = slot.block.is_used_up(now_ns, shared.generation());
    let size = block::next_size(slot.block_size.load(Relaxed), used_up, u64::from(u32::MAX));
    if !slot.block.is_empty() {
        slot.drop_block();
    }
    let claim = claim(Request::new(ClaimSize::Block(size), false), now_ns)?;
    slot.block_size.store(size.min(claim.max_block), Relaxed);
    let id = claim.layout.id_at(claim.run.start, claim.node_bits);
    // Where blocks are of one ID, there is nothing to hold, and none to grow.
    if claim.max_block > 1 {
        let left = claim.run.count - u64::from(!Fault::BlockOneTooLong.is_planted());
        let next = id.wrapping_add(claim.layout.stride());
        slot.block.fill(claim.layout, next, left, claim.now_tick, claim.generation);
    }
    Ok(id)
}

/// Claims positions for a batch that is handed out at once. What this process holds of a block is
/// dropped first, so that its IDs stay in order.
///
/// # Errors
/// As for [`next_id`].
pub fn next_batch(size: ClaimSize) -> Result<Claim, Error> {
    next_run(size, false)
}

/// As [`next_batch`], for one that is handed out row by row.
///
/// # Errors
/// As for [`next_id`].
pub fn next_rows(size: ClaimSize) -> Result<Claim, Error> {
    next_run(size, true)
}

fn next_run(size: ClaimSize, by_row: bool) -> Result<Claim, Error> {
    let backend = backend::attach()?;
    test_server::before_snowflake()?;
    if !Fault::BlockKeptAtBatch.is_planted() {
        backend.slot.drop_block();
    }
    claim(backend, Request::new(size, by_row), clock::wall_ns())
}

#[inline(always)]
fn claim(backend: Backend, request: Request, now_ns: u64) -> Result<Claim, Error> {
    match attempt(backend, request, now_ns) {
        Ok(claim) => Ok(claim),
        Err(denial) => claim_denied(backend, request, denial),
    }
}

/// Counts a refusal, if that is what becomes of a denial.
#[cold]
#[inline(never)]
fn claim_denied(backend: Backend, request: Request, denial: Denial) -> Result<Claim, Error> {
    let outcome = claim_after_denial(backend, request, denial);
    if let Err(error) = &outcome {
        backend.shared.events.0.count_refusal(error.reason());
    }
    outcome
}

/// Does what a denial asks for, until a claim is granted or there is nothing that could be done.
fn claim_after_denial(
    backend: Backend,
    mut request: Request,
    mut denial: Denial,
) -> Result<Claim, Error> {
    let shared = backend.shared;
    let layout = shared.layout()?;
    let mut wait: Option<Wait> = None;
    loop {
        let mut now_ns = None;
        match denial {
            // `layout`, above, has returned an error, unless there is a layout by now.
            Denial::NoLayout => {}
            Denial::NoNumber => wait::for_number(backend, layout)?,
            Denial::NotStarted => {
                startup::start_undecided(shared)?;
            }
            Denial::ClocksUnchecked => now_ns = Some(clocks::check(shared)?),
            Denial::OutsideLayout => {
                durable::clock_tick(layout, clock::wall_ns())?;
                return Err(Reason::AllReserved(*layout).into());
            }
            // The keeper is late, or there is none.
            Denial::Unreserved => {
                shared.check_grant(layout)?;
                keeper::start_if_missing(shared);
                wait.get_or_insert_with(|| Wait::new(backend));
                reserve::extend(shared, &shared.write_lock.lock())?;
            }
            Denial::Ahead { position, limit } => {
                request.bulk = limit.reserve() > 0;
                let wait = wait.get_or_insert_with(|| Wait::new(backend));
                wait.until_due(layout, limit, position, None)?;
            }
        }
        request.clocks_checked = now_ns.is_some();
        match attempt(backend, request, now_ns.unwrap_or_else(clock::wall_ns)) {
            Ok(claim) => return Ok(claim),
            Err(next) => denial = next,
        }
    }
}

/// Claims once.
fn attempt(backend: Backend, request: Request, now_ns: u64) -> Result<Claim, Denial> {
    attempt_locked(backend, backend.shared.lock(), request, now_ns)
}

/// Claims once, and releases the lock.
#[inline(always)]
fn attempt_locked(
    backend: Backend,
    mut state: LwLockGuard<'_, State>,
    request: Request,
    now_ns: u64,
) -> Result<Claim, Denial> {
    let Backend { shared, slot } = backend;
    let Some(layout) = shared.layout_if_valid() else { return Err(Denial::NoLayout) };
    let claimed = claim_locked(shared, &mut state, slot, layout, request, now_ns);
    drop(state);
    let (claim, low) = claimed?;
    if low {
        shared.keeper.wake();
    }
    slot.note_claim(claim.now_tick, claim.run.count);
    Ok(claim)
}

/// Claims, and tells whether the reservation is running low.
#[inline(always)]
fn claim_locked(
    shared: &SharedState,
    state: &mut State,
    slot: &Slot,
    layout: &'static Layout,
    request: Request,
    now_ns: u64,
) -> Result<(Claim, bool), Denial> {
    let Some(node_bits) = state.rules.node_bits else { return Err(Denial::NoNumber) };
    let State { allocator: Some(allocator), rules, peaks, blocks_held, .. } = state else {
        return Err(Denial::NotStarted);
    };
    if allocator.monitor.is_due(now_ns) && !request.clocks_checked {
        return Err(Denial::ClocksUnchecked);
    }
    // That the clock is past the layout's end is found by the claim.
    let Ok(now_tick) = layout.tick_at(unix_us(now_ns)) else { return Err(Denial::OutsideLayout) };
    let limit = if request.is_bulk(layout, slot, now_tick) {
        rules.lead.for_bulk(layout)
    } else {
        rules.lead
    };
    let size = request.limited(rules.max_block);
    let run = match allocator.claim(layout, now_tick, size, limit, rules.sequence_start) {
        Ok(run) => run,
        Err(ClaimError::Reached { bound: Bound::Clock, position }) => {
            return Err(Denial::Ahead { position, limit });
        }
        Err(ClaimError::Reached { bound: Bound::Reservation, .. }) => {
            return Err(Denial::Unreserved);
        }
        Err(ClaimError::Exhausted) => return Err(Denial::OutsideLayout),
    };
    // Under the lock, so that nobody reads a horizon above it before it is there.
    slot.publish(layout.id_at(run.start, node_bits));
    *blocks_held |= run.count > 1;
    let low = allocator.is_low(run.end());
    peaks.note(layout, now_tick, run.end() - 1);
    let max_block = rules.max_block;
    if max_block == 1 && matches!(request.size, ClaimSize::Block(_)) {
        share_tick(shared, state, layout, node_bits, now_tick);
    }
    let generation = shared.generation();
    Ok((Claim { layout, run, node_bits, now_tick, generation, max_block }, low))
}

/// Puts what is left of the tick into the block that sessions share. Any of them may take of it, so it holds
/// only what those that load in bulk may get.
fn share_tick(
    shared: &SharedState,
    state: &mut State,
    layout: &Layout,
    node_bits: u64,
    now_tick: u64,
) {
    let Some(allocator) = &state.allocator else { return };
    // What is not taken of the block stays with the allocator.
    let mut rest = *allocator;
    let (limit, start) = (state.rules.lead.for_bulk(layout), state.rules.sequence_start);
    let size = ClaimSize::Block(shared_block::LARGEST);
    if let Ok(run) = rest.claim(layout, now_tick, size, limit, start) {
        shared.open_block(state, layout, run, layout.id_at(run.start, node_bits), now_tick);
    }
}
