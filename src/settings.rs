//! The `id_gen.*` parameters: their definitions, and what this process last read of them.
//!
//! All are `SIGHUP`: an operator changes them in `postgresql.conf` or with `ALTER SYSTEM`, an
//! ordinary role can't. Processes notice a reload at different moments, so none acts on its own
//! copy: the values in force are those in the shared segment, where the keeper puts what it reads,
//! or while none runs, whoever read the file last ([`crate::shared`]).

use std::ffi::{CStr, CString, c_char, c_void};

use id_gen_core::clock::unix_ms;
use id_gen_core::frontier::SequenceStart;
use id_gen_core::layout::{Layout, LayoutError};
use id_gen_core::presets;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::clock;
use crate::process::PerProcess;
use crate::refusal::Refusal;
use crate::timestamp::POSTGRES_EPOCH_UNIX_US;

/// The value of `id_gen.worker_id` and `id_gen.datacenter_id` that means "not set".
const UNSET: i32 = -1;
const MAX_NODE: i32 = i32::MAX;

const DEFAULT_MAX_LEAD_MS: i32 = 5_000;
/// The largest `id_gen.max_lead`: a day, so that a server whose clock was hours ahead can go on.
pub const MAX_MAX_LEAD_MS: i32 = 86_400_000;
const DEFAULT_MAX_WAIT_MS: i32 = 1_000;
const MAX_MAX_WAIT_MS: i32 = 600_000;
const DEFAULT_MAX_JUMP_MS: i32 = 600_000;
const MIN_MAX_JUMP_MS: i32 = 1_000;
const DEFAULT_MAX_BLOCK: i32 = 64;
const MAX_MAX_BLOCK: i32 = 65_536;

/// `id_gen.sequence_start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)]
enum SequenceStartGuc {
    spread,
    zero,
}

static WORKER_ID: GucSetting<i32> = GucSetting::<i32>::new(UNSET);
static DATACENTER_ID: GucSetting<i32> = GucSetting::<i32>::new(0);
static LAYOUT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"default"));
static MAX_LEAD: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_MAX_LEAD_MS);
static MAX_WAIT: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_MAX_WAIT_MS);
static MAX_JUMP: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_MAX_JUMP_MS);
static SEQUENCE_START: GucSetting<SequenceStartGuc> =
    GucSetting::<SequenceStartGuc>::new(SequenceStartGuc::spread);
static MAX_BLOCK: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_MAX_BLOCK);

/// What one process read of the settings that may change while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// This server's number, or [`UNSET`].
    pub worker_id: i32,
    /// The datacenter's number.
    pub datacenter_id: i32,
    /// How far IDs may run ahead of the clock.
    pub max_lead_ms: u32,
    /// How long a call waits for the clock.
    pub max_wait_ms: u32,
    /// Largest forward step that is believed.
    pub max_jump_ms: u32,
    /// Where a fresh tick starts.
    pub sequence_start: SequenceStart,
    /// Largest block of a backend.
    pub max_block: u32,
}

impl Settings {
    /// Before any were read: nothing can be generated with these.
    pub const NONE: Settings = Settings {
        worker_id: UNSET,
        datacenter_id: 0,
        max_lead_ms: 0,
        max_wait_ms: 0,
        max_jump_ms: 0,
        sequence_start: SequenceStart::Zero,
        max_block: 1,
    };

    /// Whether both make IDs with the same node's bits.
    pub fn same_node(&self, other: &Settings) -> bool {
        (self.worker_id, self.datacenter_id) == (other.worker_id, other.datacenter_id)
    }

    /// This server's number, if it is set.
    pub fn worker(&self) -> Option<i32> {
        (self.worker_id != UNSET).then_some(self.worker_id)
    }

    /// The node's bits in every ID.
    ///
    /// # Errors
    /// If no worker is set, or a number does not fit the layout.
    pub fn node_bits(&self, layout: &Layout) -> Result<u64, Refusal> {
        if self.worker_id == UNSET {
            return Err(Refusal::WorkerUnset);
        }
        layout
            .node_bits(self.datacenter_id.into(), self.worker_id.into())
            .map_err(|error| Refusal::Node(error, *layout))
    }
}

/// The values as this process last read them.
pub fn current() -> Settings {
    Settings {
        worker_id: WORKER_ID.get(),
        datacenter_id: DATACENTER_ID.get(),
        max_lead_ms: MAX_LEAD.get().unsigned_abs(),
        max_wait_ms: MAX_WAIT.get().unsigned_abs(),
        max_jump_ms: MAX_JUMP.get().unsigned_abs(),
        sequence_start: match SEQUENCE_START.get() {
            SequenceStartGuc::spread => SequenceStart::Spread,
            SequenceStartGuc::zero => SequenceStart::Zero,
        },
        max_block: MAX_BLOCK.get().unsigned_abs(),
    }
}

/// When PostgreSQL last loaded the configuration file in this process; changes with every reload.
#[inline(always)]
pub fn reload_time() -> pg_sys::TimestampTz {
    // SAFETY: a plain variable of this process, written between statements only.
    unsafe { pg_sys::PgReloadTime }
}

/// Whether this process has been told of a reload that it has not read yet, as in the middle of a
/// long statement.
pub fn reload_pending() -> bool {
    // SAFETY: set by a signal handler of this process, as a whole.
    unsafe { (&raw const pg_sys::ConfigReloadPending).read_volatile() != 0 }
}

/// Whether this process is one that no reload reaches: a background worker that has set up no handler for the signal, and
/// is none that takes its leader's settings.
pub fn ignores_reloads() -> bool {
    // SAFETY: variables of this process. All-zero bytes are a valid `sigaction`, and the call only asks.
    unsafe {
        // The postmaster and a single-user server are the ones that read the file, whatever their caller ignores.
        if !pg_sys::IsUnderPostmaster || pg_sys::ParallelWorkerNumber >= 0 {
            return false;
        }
        let mut action = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// When this process read the values it has, on the monotonic clock, which unlike
/// [`reload_time`] compares between processes whatever the wall clock does.
pub fn read_at_mono_ns() -> u64 {
    let now = clock::both();
    let read_at_us = reload_time().saturating_add(POSTGRES_EPOCH_UNIX_US);
    let age_ns = i128::from(now.wall_ns) - i128::from(read_at_us) * 1000;
    now.mono_ns.saturating_sub(u64::try_from(age_ns).unwrap_or(0))
}

/// The layout that `id_gen.layout` names, as this process last read it.
static PARSED_LAYOUT: PerProcess<Option<Layout>> = PerProcess::new(None);

/// The layout that the running server keeps until it restarts, as far as it has one; `None` where
/// nothing generates.
static LAYOUT_IN_FORCE: PerProcess<Option<Option<Layout>>> = PerProcess::new(None);

/// Tells which layout the running server has adopted.
pub fn set_layout_in_force(layout: Option<Layout>) {
    LAYOUT_IN_FORCE.with(|in_force| *in_force = Some(layout));
}

/// The layout that the running server has adopted, as far as this process knows. The postmaster knows it also after a
/// crash, when all shared memory is made anew.
pub fn layout_in_force() -> Option<Option<Layout>> {
    LAYOUT_IN_FORCE.with(|in_force| *in_force)
}

/// The layout of this process's `id_gen.layout`.
///
/// # Errors
/// [`Refusal::BadServerLayout`] if the server was started with a text that is no layout.
pub fn layout() -> Result<Layout, Refusal> {
    if let Some(layout) = PARSED_LAYOUT.with(|layout| *layout) {
        return Ok(layout);
    }
    let text = layout_text();
    text.parse().map_err(|error| Refusal::BadServerLayout { text, error })
}

/// The text of `id_gen.layout`.
pub fn layout_text() -> String {
    LAYOUT.get().map_or_else(String::new, |text| text.to_string_lossy().into_owned())
}

/// True while the parameters are being defined: see [`check_layout`].
static DEFINING: PerProcess<bool> = PerProcess::new(false);

/// Refuses a text that is no layout, whoever sets it, and for whoever types `ALTER SYSTEM` also a layout that no ID
/// can be made with today. Elsewhere the clock does not count: a text that was good when it was set must not fail
/// later, in a session that only restores it.
///
/// A parallel worker takes what its leader has, as it is. Nor is a value refused that is found when the library is
/// loaded: PostgreSQL would replace it by the default and go on, and this server would silently issue IDs of another
/// layout. It is kept instead, so that it can be seen, and generating refuses until it is mended.
#[pg_guard]
unsafe extern "C-unwind" fn check_layout(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to a pointer, which is that of a string or null.
    let text = match unsafe { value.as_ref() } {
        // SAFETY: the string outlives the call.
        Some(text) if !text.is_null() => unsafe { CStr::from_ptr(*text) }.to_string_lossy(),
        _ => return true,
    };
    // SAFETY: a state variable of this process.
    if unsafe { pg_sys::InitializingParallelWorker } {
        return true;
    }
    let (defining, typed) = (DEFINING.with(|defining| *defining), is_typed());
    let layout = if defining || typed { usable_layout(&text) } else { text.parse() };
    let error = match layout {
        Ok(layout) => {
            if typed {
                tell_if_pending(layout);
            }
            return true;
        }
        Err(error) => error,
    };
    let refusal = Refusal::BadServerLayout { text: text.into_owned(), error };
    if defining {
        refusal.log(PgLogLevel::WARNING);
        return true;
    }
    refusal.explain_to_guc();
    false
}

/// Whether this session is executing `ALTER SYSTEM`, which is always a statement of its own.
fn is_typed() -> bool {
    // SAFETY: null, or the portal of the statement that this session executes.
    unsafe { pg_sys::ActivePortal.as_ref() }
        .is_some_and(|portal| portal.commandTag == pg_sys::CommandTag::CMDTAG_ALTER_SYSTEM)
}

/// Parses a layout and checks that IDs can be made with it today.
fn usable_layout(text: &str) -> Result<Layout, LayoutError> {
    let layout: Layout = text.parse()?;
    layout.check_at(unix_ms(clock::wall_ns()))?;
    Ok(layout)
}

/// Tells that a new layout waits for a restart.
fn tell_if_pending(layout: Layout) {
    if LAYOUT_IN_FORCE.with(|in_force| in_force.is_some_and(|kept| kept != Some(layout))) {
        ereport!(
            PgLogLevel::NOTICE,
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            "parameter \"id_gen.layout\" takes effect when the server is restarted"
        );
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn assign_layout(value: *const c_char, _extra: *mut c_void) {
    let layout = if value.is_null() {
        None
    } else {
        // SAFETY: a string that PostgreSQL keeps for the length of the call.
        unsafe { CStr::from_ptr(value) }.to_string_lossy().parse().ok()
    };
    PARSED_LAYOUT.with(|parsed| *parsed = layout);
}

fn define_int(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    bounds: std::ops::RangeInclusive<i32>,
    flags: GucFlags,
) {
    let (min, max) = bounds.into_inner();
    GucRegistry::define_int_guc(name, short, long, setting, min, max, GucContext::Sighup, flags);
}

/// Defines every parameter. Called once, when the library is loaded.
pub fn define() {
    DEFINING.with(|defining| *defining = true);
    define_int(
        c"id_gen.worker_id",
        c"Sets this server's number within IDs.",
        c"No two servers may have the same number and datacenter. -1 means unset: no snowflake is generated.",
        &WORKER_ID,
        UNSET..=MAX_NODE,
        GucFlags::empty(),
    );
    define_int(
        c"id_gen.datacenter_id",
        c"Sets this server's datacenter within IDs.",
        c"Only layouts with a datacenter field take a number other than 0.",
        &DATACENTER_ID,
        0..=MAX_NODE,
        GucFlags::empty(),
    );
    // SAFETY: both hooks have the signature PostgreSQL expects and are guarded against unwinding.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            c"id_gen.layout",
            c"Sets what the bits of generated snowflakes mean.",
            c"The name of a preset (see snowflake_layouts()) or a layout text. A running server keeps the layout it was started with.",
            &LAYOUT,
            GucContext::Sighup,
            GucFlags::empty(),
            Some(check_layout),
            Some(assign_layout),
            None,
        );
    }
    define_int(
        c"id_gen.max_lead",
        c"Sets how far snowflakes may run ahead of the clock.",
        c"Used by bulk loads that fill a tick, and after the clock was set back. 0 waits for the clock instead.",
        &MAX_LEAD,
        0..=MAX_MAX_LEAD_MS,
        GucFlags::UNIT_MS,
    );
    define_int(
        c"id_gen.max_wait",
        c"Sets the longest wait for the clock before a snowflake is refused.",
        c"0 refuses at once.",
        &MAX_WAIT,
        0..=MAX_MAX_WAIT_MS,
        GucFlags::UNIT_MS,
    );
    define_int(
        c"id_gen.max_jump",
        c"Sets the largest forward step of the clock that is believed.",
        c"After a larger one no snowflake is generated until the clock comes back or a superuser calls id_gen_accept_clock().",
        &MAX_JUMP,
        MIN_MAX_JUMP_MS..=i32::MAX,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_enum_guc(
        c"id_gen.sequence_start",
        c"Sets where the sequence of a tick starts.",
        c"\"spread\" starts somewhere in the lowest 1/64, so that a quiet server's IDs differ in their last bits; \"zero\" starts at 0.",
        &SEQUENCE_START,
        GucContext::Sighup,
        GucFlags::empty(),
    );
    define_int(
        c"id_gen.max_block",
        c"Sets the largest number of snowflakes a session claims at a time.",
        c"Sessions that insert in bulk claim up to this many; 1 keeps IDs strictly increasing across the whole server.",
        &MAX_BLOCK,
        1..=MAX_MAX_BLOCK,
        GucFlags::empty(),
    );
    DEFINING.with(|defining| *defining = false);
    // SAFETY: a constant string; PostgreSQL copies it.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"id_gen".as_ptr()) };
}

/// The layout that an SQL argument names: a preset or a layout text.
///
/// # Errors
/// [`Refusal::BadLayout`].
pub fn layout_named(text: &str) -> Result<Layout, Refusal> {
    if let Some(preset) = presets::by_name(text) {
        return Ok(preset.layout);
    }
    text.parse().map_err(Refusal::BadLayout)
}
