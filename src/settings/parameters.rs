//! The definitions of the parameters, and their values as this process last read them.

use std::ffi::CStr;

use id_gen_core::frontier::SequenceStart;
use id_gen_core::identity::Identity;
use id_gen_core::lead::LARGEST_MAX_LEAD_MS;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};
use pgrx::pg_sys;

use crate::settings::{layout_check_hook, number_check_hook, registry, test_start};

/// The value of `id_gen.worker_id` that means "not set".
const UNSET: i32 = -1;

const DEFAULT_MAX_LEAD_MS: i32 = 5_000;
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
static MAX_LEAD: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_MAX_LEAD_MS);
static MAX_WAIT: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_MAX_WAIT_MS);
static MAX_JUMP: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_MAX_JUMP_MS);
static SEQUENCE_START: GucSetting<SequenceStartGuc> =
    GucSetting::<SequenceStartGuc>::new(SequenceStartGuc::spread);
static MAX_BLOCK: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_MAX_BLOCK);

/// The parameters that say how IDs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How far IDs may lead the clock.
    pub max_lead_ms: u32,
    /// How long a call waits for the clock.
    pub max_wait_ms: u32,
    /// Largest forward step of the clock that is trusted.
    pub max_jump_ms: u32,
    /// Where a fresh tick starts.
    pub sequence_start: SequenceStart,
    /// Largest block of a backend.
    pub max_block: u32,
    /// Whether the server's number comes from a fleet's registry.
    pub has_registry: bool,
    /// Tells the fleet and its registry from others; zero: none.
    pub registry_mark: u64,
}

impl Settings {
    /// Before any were read: nothing can be generated with these.
    pub const NONE: Settings = Settings {
        max_lead_ms: 0,
        max_wait_ms: 0,
        max_jump_ms: 0,
        sequence_start: SequenceStart::Zero,
        max_block: 1,
        has_registry: false,
        registry_mark: 0,
    };
}

/// The values as this process last read them.
pub fn current() -> Settings {
    Settings {
        max_lead_ms: MAX_LEAD.get().unsigned_abs(),
        max_wait_ms: MAX_WAIT.get().unsigned_abs(),
        max_jump_ms: MAX_JUMP.get().unsigned_abs(),
        sequence_start: match SEQUENCE_START.get() {
            SequenceStartGuc::spread => SequenceStart::Spread,
            SequenceStartGuc::zero => SequenceStart::Zero,
        },
        max_block: MAX_BLOCK.get().unsigned_abs(),
        has_registry: registry::is_set(),
        registry_mark: registry::mark(),
    }
}

/// The server's numbers as this process last read them, without those that a registry gave.
pub fn identity() -> Identity {
    Identity {
        // The bounds leave no negative number but the one for "not set".
        worker: u32::try_from(WORKER_ID.get()).ok(),
        datacenter: DATACENTER_ID.get().unsigned_abs(),
        ..Identity::NONE
    }
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

/// Defines one of the server's numbers.
fn define_number(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    least: i32,
    hook: pg_sys::GucIntCheckHook,
) {
    let (context, flags) = (GucContext::Sighup, GucFlags::empty());
    // SAFETY: the hook has the signature PostgreSQL expects, and is guarded.
    unsafe {
        GucRegistry::define_int_guc_with_hooks(
            name,
            short,
            long,
            setting,
            least,
            i32::MAX,
            context,
            flags,
            hook,
            None,
            None,
        );
    }
}

/// Defines every parameter. Called once, when the library is loaded.
pub fn define() {
    define_number(
        c"id_gen.worker_id",
        c"Sets the worker ID of this server.",
        c"No two servers may have the same worker ID and datacenter ID. -1 means unset: no snowflake is generated.",
        &WORKER_ID,
        UNSET,
        Some(number_check_hook::check_worker_id),
    );
    define_number(
        c"id_gen.datacenter_id",
        c"Sets the datacenter ID of this server.",
        c"Layouts without a datacenter field only allow 0.",
        &DATACENTER_ID,
        0,
        Some(number_check_hook::check_datacenter_id),
    );
    layout_check_hook::define();
    define_int(
        c"id_gen.max_lead",
        c"Sets the maximum time by which snowflakes can be ahead of the clock.",
        c"Used by bulk loads that fill a tick, and after the clock was set back. With 0, calls wait for the clock instead.",
        &MAX_LEAD,
        0..=LARGEST_MAX_LEAD_MS.cast_signed(),
        GucFlags::UNIT_MS,
    );
    define_int(
        c"id_gen.max_wait",
        c"Sets the maximum time that a call waits for the clock, or for the worker ID of a fleet.",
        c"With 0, the call fails immediately.",
        &MAX_WAIT,
        0..=MAX_MAX_WAIT_MS,
        GucFlags::UNIT_MS,
    );
    define_int(
        c"id_gen.max_clock_jump",
        c"Sets the largest forward step of the clock that is accepted.",
        c"After a larger step, no snowflake is generated until the clock is corrected or a superuser calls id_gen_clock_accept().",
        &MAX_JUMP,
        MIN_MAX_JUMP_MS..=i32::MAX,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_enum_guc(
        c"id_gen.sequence_start",
        c"Sets the start of the sequence in each tick.",
        c"\"spread\" starts at a random value in the lowest 1/64, so that the IDs of an idle server differ in their last bits; \"zero\" starts at 0.",
        &SEQUENCE_START,
        GucContext::Sighup,
        GucFlags::empty(),
    );
    define_int(
        c"id_gen.max_block_size",
        c"Sets the maximum number of snowflakes that a session allocates at a time.",
        c"Sessions that insert in bulk allocate up to this many. With 1, IDs strictly increase across all sessions of the server.",
        &MAX_BLOCK,
        1..=MAX_MAX_BLOCK,
        GucFlags::empty(),
    );
    registry::define();
    test_start::define();
    // SAFETY: a constant string; PostgreSQL copies it.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"id_gen".as_ptr()) };
}
