//! The way from a used-up block to the next positions: take the lock, claim, and if the clock has
//! to catch up first, wait for it without the lock.
//!
//! Nothing logs, sleeps or writes while the lock is held: [`State::claim`] only computes, and what
//! it found is told, waited for or written after the lock is released.

use std::sync::atomic::Ordering::Relaxed;

use id_gen_core::block;
use id_gen_core::clock::{unix_ms, unix_us};
use id_gen_core::frontier::{self, Limits, NO_RESERVATION, Run, Want, left_by_bulk, modest_count};
use id_gen_core::layout::{Layout, NS_PER_MS};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::backend::{self, Attached};
use crate::clock;
use crate::refusal::Refusal;
use crate::reservation::{self, Decision};
use crate::shared::{Segment, State};
use crate::slot::Slot;
use crate::wait;

/// Shorter waits are slept through; longer ones wait on the latch, which is precise to 1 ms.
const NAP_NS: u64 = 2 * NS_PER_MS;
/// However long the wait, the clock is looked at this often: it may be put right meanwhile.
const LOOK_AGAIN_MS: u64 = 100;

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
    want: Want,
    /// Handed out row by row, so that other sessions may generate in between.
    by_row: bool,
    /// This session takes many: it leaves room to those that take few.
    bulk: bool,
}

impl Request {
    fn new(attached: Attached, want: Want, by_row: bool, now_ns: u64) -> Request {
        let (Want::Block(count) | Want::Batch { remaining: count, .. }) = want;
        let modest = attached.segment.fast_layout().map_or(0, modest_count);
        let bulk = attached.slot.taken_in_tick(now_ns).saturating_add(count) > modest;
        Request { want, by_row, bulk }
    }

    /// What it gets of what it wants: where the order across sessions is strict, one row at a time.
    fn limited(self, max_block: u64) -> Want {
        match self.want {
            Want::Batch { .. } if self.by_row && max_block == 1 => Want::Block(1),
            Want::Block(size) => Want::Block(size.min(max_block)),
            batch @ Want::Batch { .. } => batch,
        }
    }
}

/// Claims a new block and takes its first ID.
///
/// # Errors
/// Whatever forbids this server to generate now.
pub fn next_id() -> Result<u64, Refusal> {
    let attached = backend::attach()?;
    let slot = attached.slot;
    let now_ns = clock::wall_ns();
    let used_up =
        slot.block.is_empty() && slot.block.is_current(now_ns, attached.segment.generation());
    let previous = slot.block_size.load(Relaxed);
    let size = block::next_size(previous, used_up, u64::from(u32::MAX));
    slot.drop_block();
    let claim = claim(attached, Want::Block(size), false, now_ns)?;
    slot.block_size.store(size.min(claim.max_block), Relaxed);
    let id = claim.layout.id_at(claim.run.start, claim.node_bits);
    let rest = Run { start: claim.run.start + 1, count: claim.run.count - 1 };
    slot.block.fill(claim.layout, claim.node_bits, rest, claim.now_tick, claim.generation);
    Ok(id)
}

/// Claims positions for a batch that is handed out at once. What this process holds of a block is
/// dropped first, so that its IDs stay in order.
///
/// # Errors
/// As for [`next_id`].
pub fn next_batch(want: Want) -> Result<Claim, Refusal> {
    next_run(want, false)
}

/// As [`next_batch`], for one that is handed out row by row.
///
/// # Errors
/// As for [`next_id`].
pub fn next_rows(want: Want) -> Result<Claim, Refusal> {
    next_run(want, true)
}

fn next_run(want: Want, by_row: bool) -> Result<Claim, Refusal> {
    let attached = backend::attach()?;
    attached.slot.drop_block();
    claim(attached, want, by_row, clock::wall_ns())
}

fn claim(attached: Attached, want: Want, by_row: bool, now_ns: u64) -> Result<Claim, Refusal> {
    let Attached { segment, slot, .. } = attached;
    let request = Request::new(attached, want, by_row, now_ns);
    let outcome = claim_or_wait(attached, request, now_ns);
    match &outcome {
        Ok(claim) => {
            Slot::add(&slot.claims, 1);
            Slot::add(&slot.granted, claim.run.count);
            slot.note_taken(claim.layout, claim.now_tick, claim.run.count);
        }
        Err(refusal) => segment.count_refusal(refusal),
    }
    outcome
}

fn claim_or_wait(attached: Attached, request: Request, now_ns: u64) -> Result<Claim, Refusal> {
    let segment = attached.segment;
    let layout = segment.layout()?;
    let mut wait: Option<Wait> = None;
    let mut now_ns = now_ns;
    loop {
        let (attempt, step) = {
            let mut state = segment.lock();
            (state.claim(segment, layout, request, now_ns), state.take_untold_step())
        };
        if let Some(stepped_ns) = step {
            tell_of_step(stepped_ns);
        }
        match attempt {
            Ok((claim, low)) => {
                if low {
                    segment.call_keeper();
                }
                return Ok(claim);
            }
            Err(Denial::Refused(refusal)) => return Err(refusal),
            Err(Denial::Unopened) => {
                reservation::open(segment, &segment.begin_writing(), Decision::None)?;
            }
            // The keeper is late, or there is none.
            Err(Denial::Unreserved) => {
                wait.get_or_insert_with(|| Wait::begin(attached));
                reservation::extend(segment, &segment.begin_writing())?;
            }
            Err(Denial::Ahead { until_ms, limits }) => {
                wait.get_or_insert_with(|| Wait::begin(attached)).towards(until_ms, limits)?;
            }
        }
        now_ns = clock::wall_ns();
    }
}

/// Why one look at the shared state gave no positions.
enum Denial {
    /// The clock has to show `until_ms` first.
    Ahead { until_ms: i64, limits: WaitLimits },
    /// The reservation has to be extended first.
    Unreserved,
    /// The line has to begin first.
    Unopened,
    /// There is nothing to wait for.
    Refused(Refusal),
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Denial {
        Denial::Refused(refusal)
    }
}

#[derive(Clone, Copy)]
struct WaitLimits {
    /// `max_lead_ms` in whole ticks.
    lead_ms: u64,
    /// What a bulk request leaves of it to others; zero for any other.
    left_ms: u32,
    max_lead_ms: u32,
    max_wait_ms: u32,
}

/// The tick that the clock shows.
///
/// # Errors
/// If the layout does not reach there.
pub fn tick_now(layout: &Layout, now_ns: u64) -> Result<u64, Refusal> {
    layout.tick_at(unix_us(now_ns)).map_err(|_| {
        if unix_ms(now_ns) < layout.epoch_ms() {
            Refusal::BeforeEpoch(*layout)
        } else {
            Refusal::Exhausted(*layout)
        }
    })
}

impl State {
    /// Claims, and tells whether the reservation is running low.
    fn claim(
        &mut self,
        segment: &'static Segment,
        layout: &'static Layout,
        request: Request,
        now_ns: u64,
    ) -> Result<(Claim, bool), Denial> {
        let settings = self.settings;
        let node_bits = settings.node_bits(layout)?;
        let Some(line) = &self.line else { return Err(Denial::Unopened) };
        let mut now_ns = now_ns;
        if line.watch.is_due(now_ns) {
            now_ns = self.look_at_clocks()?.wall_ns;
        }
        let now_tick = tick_now(layout, now_ns)?;
        let max_block = u64::from(settings.max_block);
        let max_lead_ticks = u64::from(settings.max_lead_ms / layout.tick_ms());
        let left = if request.bulk { left_by_bulk(layout, max_lead_ticks) } else { 0 };
        let limits = Limits {
            max_lead_ticks,
            left,
            reservation: NO_RESERVATION,
            sequence_start: settings.sequence_start,
        };
        let Some(line) = &mut self.line else { return Err(Denial::Unopened) };
        let run = line.claim(layout, now_tick, request.limited(max_block), &limits).map_err(
            |refusal| match refusal {
                frontier::Refusal::Ahead { until_tick } => Denial::Ahead {
                    until_ms: layout.tick_start_ms(until_tick),
                    limits: WaitLimits {
                        lead_ms: max_lead_ticks * u64::from(layout.tick_ms()),
                        left_ms: if left == layout.per_tick() { layout.tick_ms() } else { 0 },
                        max_lead_ms: settings.max_lead_ms,
                        max_wait_ms: settings.max_wait_ms,
                    },
                },
                frontier::Refusal::Unreserved { .. } => Denial::Unreserved,
                frontier::Refusal::Exhausted => Refusal::AllPromised(*layout).into(),
            },
        )?;
        let low = line.is_low(layout, run.end());
        let last_tick = layout.tick_of(run.end() - 1);
        let sequence = run.end() - 1 - layout.first_position(last_tick);
        self.count_claim(last_tick.saturating_sub(now_tick), sequence);
        let generation = segment.generation();
        Ok((Claim { layout, run, node_bits, now_tick, generation, max_block }, low))
    }
}

/// A wait for the clock, from its first nap to its end; counted however it ends.
struct Wait {
    attached: Attached,
    since_mono_ns: u64,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Attached { segment, slot, .. } = self.attached;
        let waited_ns = self.so_far_ns();
        Slot::add(&slot.waits, 1);
        Slot::add(&slot.waited_ns, waited_ns);
        segment.count_wait(waited_ns);
    }
}

impl Wait {
    fn begin(attached: Attached) -> Wait {
        Wait { attached, since_mono_ns: clock::mono_ns() }
    }

    fn so_far_ns(&self) -> u64 {
        clock::mono_ns().saturating_sub(self.since_mono_ns)
    }

    /// Sleeps until the clock may show `until_ms`, or a little less to look again. Cancelling the
    /// query, a timeout and the end of the session interrupt it.
    fn towards(&self, until_ms: i64, limits: WaitLimits) -> Result<(), Refusal> {
        let until_ns = u64::try_from(until_ms).unwrap_or(0).saturating_mul(NS_PER_MS);
        let ahead_ns = until_ns.saturating_sub(clock::wall_ns());
        let max_wait_ns = u64::from(limits.max_wait_ms) * NS_PER_MS;
        let left_ns = max_wait_ns.saturating_sub(self.so_far_ns());
        if left_ns == 0 && ahead_ns > 0 {
            let until_lead_ms = ahead_ns / NS_PER_MS + limits.lead_ms;
            let lead_ms = until_lead_ms.saturating_sub(limits.left_ms.into());
            return Err(Refusal::Ahead {
                lead_ms: i64::try_from(lead_ms).unwrap_or(i64::MAX),
                left_ms: limits.left_ms,
                max_lead_ms: limits.max_lead_ms,
                max_wait_ms: limits.max_wait_ms,
            });
        }
        sleep(ahead_ns.min(left_ns));
        Ok(())
    }
}

fn sleep(ns: u64) {
    check_for_interrupts!();
    let event = wait::Event::Clock;
    if ns < NAP_NS {
        event.during(|| std::thread::sleep(std::time::Duration::from_nanos(ns)));
        return;
    }
    let ms = (ns / NS_PER_MS).min(LOOK_AGAIN_MS);
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: a process that runs SQL has a latch of its own.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, ms as i64, event.info());
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
    check_for_interrupts!();
}

/// Writes the log line about a step of the clock.
pub fn tell_of_step(stepped_ns: i64) {
    let ms = stepped_ns.unsigned_abs() / NS_PER_MS;
    let direction = if stepped_ns < 0 { "back" } else { "forward" };
    ereport!(
        PgLogLevel::LOG,
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("id_gen: the clock was set {direction} by {ms} ms")
    );
}
