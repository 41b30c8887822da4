//! What one process knows: its slot, and the fast path of one ID.

use std::sync::atomic::Ordering;

use id_gen_core::meter::Span;
use pgrx::pg_sys;

use crate::clock;
use crate::cycles;
use crate::memory;
use crate::process::PerProcess;
use crate::refusal::Refusal;
use crate::settings;
use crate::shared::{Reader, Segment};
use crate::slot::Slot;

/// A process that has its slot.
#[derive(Clone, Copy)]
pub struct Attached {
    /// The shared segment.
    pub segment: &'static Segment,
    /// This process's slot.
    pub slot: &'static Slot,
    /// As long as this goes on, the clock has not left the tick that it showed when the block at hand
    /// was last compared with it. One that was set meanwhile is noticed when it is over, after a
    /// millisecond at most.
    within_tick: Span,
    /// [`settings::reload_time`] of the settings that this process has compared with those in force.
    reload_time: pg_sys::TimestampTz,
}

static ATTACHED: PerProcess<Option<Attached>> = PerProcess::new(None);

/// The next ID of this process's block, if it has one that is still good. No lock, no system call,
/// no allocation, nothing that can fail; and no clock, where the cycle counter tells that the tick
/// goes on.
#[inline(always)]
pub fn take() -> Option<u64> {
    ATTACHED.with(|attached| {
        let attached = attached.as_mut()?;
        if attached.slot.block.is_empty() || attached.reload_time != settings::reload_time() {
            return None;
        }
        let tick = attached.within_tick;
        if tick.is_some() && tick.goes_on(cycles::read()) {
            return attached.slot.block.take_within_tick(attached.segment.generation());
        }
        attached.take_by_clock()
    })
}

impl Attached {
    /// As [`take`], where the clock has to tell; notes how long it need not be asked again.
    #[inline(never)]
    fn take_by_clock(&mut self) -> Option<u64> {
        let begun = cycles::Moment::now();
        let now_ns = clock::wall_ns();
        self.within_tick = begun.lasting(self.slot.block.left_ns(now_ns));
        self.slot.block.take(now_ns, self.segment.generation())
    }
}

/// How far this session has claimed, and under which generation: what a set compares between its
/// rows. `(0, 0)` before the first claim.
#[inline]
pub fn progress() -> (u64, u64) {
    ATTACHED.with(|attached| match attached {
        Some(attached) => {
            (attached.slot.claims.load(Ordering::Relaxed), attached.segment.generation())
        }
        None => (0, 0),
    })
}

/// Attaches this process if it is not, and brings the settings in force up to date.
///
/// # Errors
/// Whatever forbids this process to generate at all.
pub fn attach() -> Result<Attached, Refusal> {
    let attached = match ATTACHED.with(|attached| *attached) {
        Some(attached) => attached,
        None => first_attach()?,
    };
    let reload_time = settings::reload_time();
    if attached.reload_time == reload_time {
        return Ok(attached);
    }
    attached.segment.adopt_settings(Reader::Session);
    let attached = Attached { reload_time, ..attached };
    ATTACHED.with(|place| *place = Some(attached));
    Ok(attached)
}

fn first_attach() -> Result<Attached, Refusal> {
    let segment = memory::attach()?;
    // A server that has left recovery never goes back to it, so once is enough.
    // SAFETY: callable by any process that can run SQL.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Err(Refusal::Recovery);
    }
    let slot = segment.take_slot()?;
    // SAFETY: `detach` matches the callback's type and reaches only this process's own slot.
    unsafe { pg_sys::before_shmem_exit(Some(detach), pg_sys::Datum::null()) };
    // No process has read its settings at time zero, so the first call compares them.
    Ok(Attached { segment, slot, within_tick: Span::default(), reload_time: 0 })
}

/// Leaves the slot when the process ends, before dynamic shared memory is unmapped; its counts stay
/// until the next process takes it.
unsafe extern "C-unwind" fn detach(_code: i32, _arg: pg_sys::Datum) {
    ATTACHED.with(|attached| {
        if let Some(attached) = attached.take() {
            attached.slot.drop_block();
            attached.slot.pid.store(0, Ordering::Relaxed);
        }
    });
}
