//! SQL functions with which a superuser decides what the extension does not guess.

use id_gen_core::layout::{Field, Layout};
use id_gen_core::reservation::RESERVATION_FILE;
use id_gen_core::startup::StartupError;
use id_gen_core::time::{US_PER_MS, format_duration, format_ms, unix_ms};
use pgrx::prelude::*;

use crate::durable::replicated;
use crate::error::{Error, Message, Reason, hint, report};
use crate::generate::backend;
use crate::generate::startup::{self, Decision, Started};
use crate::generate::{test_server, wait};
use crate::observe::readiness;
use crate::os::clock;
use crate::pg::timestamp;
use crate::settings;
use crate::shared::SharedState;
use crate::sql::function::sql_function;

sql_function! {
    /// `id_gen_clock_accept() → void`: the clock is right, although it jumped forward.
    fn id_gen_clock_accept(call) {
        if shared("id_gen_clock_accept()")?.accept_clock() {
            let notice = Message::new(
                PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
                "uuidv7_ordered() continues from the clock, below UUIDs that it has returned",
            )
            .hint("uuidv7_ordered() needs no other action. To see whether snowflakes do: SELECT state FROM id_gen_status();");
            report::tell(notice, PgLogLevel::NOTICE, call.function());
        }
        Ok(call.void())
    }
}

sql_function! {
    /// `id_gen_layout_accept() → void`: the new layout may be used, although its IDs may repeat or
    /// go below those of the old one.
    fn id_gen_layout_accept(call) {
        if start(Decision::AcceptLayout, "id_gen_layout_accept()")?.is_none() {
            announce_no_change("no change of the layout stops this server", call.function());
        }
        Ok(call.void())
    }
}

sql_function! {
    /// `id_gen_copy_accept(is_only_one boolean) → void`: this data directory is a copy, and neither its original nor
    /// another copy generates with its worker ID.
    fn id_gen_copy_accept(call) {
        if call.bool(0) != Some(true) {
            return Err(Reason::CopyNotConfirmed.into());
        }
        match start(Decision::AcceptCopy, "id_gen_copy_accept()")? {
            Some(started) => announce_wait(&started, NO_ACTION, call.function()),
            None => announce_no_change("this data directory is not a copy that has to be accepted", call.function()),
        }
        Ok(call.void())
    }
}

sql_function! {
    /// `id_gen_reservation_reset(above timestamptz) → void`: start again above the clock and above
    /// this time, whatever was reserved before.
    fn id_gen_reservation_reset(call) {
        const NAME: &str = "id_gen_reservation_reset()";
        let above_ms = match call.int8(0) {
            Some(above) => timestamp::unix_ms(above).ok_or_else(infinite)?,
            None => return Err(Reason::NullTime.into()),
        };
        let layout = *shared(NAME)?.layout()?;
        let is_ahead = above_ms > unix_ms(clock::wall_ns());
        if above_ms >= layout.epoch_ms() {
            let above_us = above_ms.saturating_mul(US_PER_MS);
            layout.tick_at(above_us).map_err(|error| Reason::Range(error, layout))?;
        }
        if let Some(started) = start(Decision::Reset { above_ms }, NAME)? {
            // What this server reserved before binds it no more in its fleet either.
            shared(NAME)?.registrar.wake();
            warn_of_repeats(&layout, &started, call.function());
            warn_of_copy(&layout, &started, call.function());
            announce_wait(&started, &reset_again(is_ahead), call.function());
        }
        Ok(call.void())
    }
}

sql_function! {
    /// `id_gen_test_mode_end() → void`: the data directory was for tests, and its server makes IDs for real from now on.
    fn id_gen_test_mode_end(call) {
        if !test_server::end(shared("id_gen_test_mode_end()")?)? {
            notice!("this data directory is not in test mode: nothing was changed");
        }
        Ok(call.void())
    }
}

/// Where IDs come after a wait.
const NO_ACTION: &str = "No other action is needed.";

/// What a reset is followed by: another one only where that would shorten the wait.
fn reset_again(is_ahead: bool) -> String {
    if !is_ahead {
        return NO_ACTION.to_owned();
    }
    format!("If that time is wrong, reset again: {}", hint::reset_at_present())
}

fn infinite() -> Error {
    Message::new(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, "timestamp must be finite")
        .hint("Pass the time of the newest ID in use, or now().")
        .into()
}

/// Says that a decision was not needed, and what else keeps the server from generating.
fn announce_no_change(fact: &str, function: pg_sys::Oid) {
    let notice = Message::new(
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("{fact}: nothing was changed"),
    );
    let in_force = readiness::layout().ok();
    let report = match readiness::shared().and_then(readiness::check) {
        Err(error) => {
            let Message { primary, hint, .. } = error.message();
            notice.detail(format!("This server cannot generate for another reason: {primary}.")).hint(hint)
        }
        Ok(()) if settings::layout().ok().as_ref() != in_force.as_ref() => notice.hint("The new id_gen.layout takes effect when the server is restarted. Restart it; then call again if snowflakes cannot be generated."),
        Ok(()) => notice.hint(NO_ACTION),
    };
    report::tell(report, PgLogLevel::NOTICE, function);
}

fn start(decision: Decision, name: &str) -> Result<Option<Started>, Error> {
    let shared = shared(name)?;
    // What is accepted or reset is the worker ID that the statement before has set.
    wait::for_reload(shared);
    let replayed = match decision {
        // A damaged one prevents no reset.
        Decision::Reset { .. } => replicated::read().unwrap_or_default(),
        _ => replicated::read()?,
    };
    startup::start(shared, replayed, &shared.write_lock.lock(), decision)
}

/// Says that a reset may repeat IDs, which may be right.
fn warn_of_repeats(layout: &Layout, started: &Started, function: pg_sys::Oid) {
    let Started { first_ms, reserved_until_ms, .. } = *started;
    if let Some(until_ms) = reserved_until_ms.filter(|&until_ms| first_ms < until_ms) {
        let first_id = Layout::to_bigint(layout.min_of(layout.tick_from(first_ms)));
        let warning = Message::new(
            PgSqlErrorCode::ERRCODE_WARNING,
            "stored snowflakes with later times may be duplicated",
        )
        .detail(format!(
            "New snowflakes start at {}; before, this server had reserved times up to {}.",
            format_ms(first_ms),
            format_ms(until_ms)
        ))
        .hint(format!("If IDs from {first_id} on are stored, replace them before the clock reaches their times. If you store results of snowflake_commit_horizon() in a table, replace them too, as in: UPDATE horizon SET id = (SELECT snowflake_commit_horizon());"));
        report::tell(warning, PgLogLevel::WARNING, function);
    }
}

/// Says that a reset made a copy a server of its own, with a worker ID that its original may have; or that nobody knows what
/// this server generated before it.
fn warn_of_copy(layout: &Layout, started: &Started, function: pg_sys::Oid) {
    let found = match started.reset_copy {
        Some(StartupError::Copied { original, .. }) => {
            format!(
                "Before the reset, file \"{RESERVATION_FILE}\" belonged to a directory with {original}."
            )
        }
        Some(StartupError::CopiedBefore { number }) => format!(
            "This data directory was copied from a server that is worker {} of datacenter {}.",
            number.worker, number.datacenter
        ),
        Some(StartupError::OtherSystem { found, .. }) => format!(
            "Before the reset, file \"{RESERVATION_FILE}\" belonged to the database cluster with system identifier {found}."
        ),
        Some(StartupError::ReservedByAnother { system_identifier, timeline, .. }) => format!(
            "The write-ahead log has a reservation of the database cluster with system identifier {system_identifier} on timeline {timeline}, and this server had none."
        ),
        Some(StartupError::PutBack { .. }) => {
            let warning = Message::new(
                PgSqlErrorCode::ERRCODE_WARNING,
                "stored snowflakes may be duplicated",
            )
            .detail(format!("Before the reset, file \"{RESERVATION_FILE}\" was replaced by an older copy, so it is not known up to what time this server had generated."))
            .hint("If stored snowflakes are above the next one, reset again above the newest: SELECT id_gen_reservation_reset(above => <time of the newest stored ID>);");
            return report::tell(warning, PgLogLevel::WARNING, function);
        }
        _ => return,
    };
    let warning = Message::new(
        PgSqlErrorCode::ERRCODE_WARNING,
        "this data directory is a copy, and may have the worker ID of its original",
    )
    .detail(found)
    .hint(format!(
        "If the original or another copy may be used again, {}",
        hint::assign_worker_id(layout.max_number(Field::Worker), hint::UNUSED)
    ));
    report::tell(warning, PgLogLevel::WARNING, function);
}

/// Says for how long there are no IDs after a decision.
fn announce_wait(started: &Started, hint: &str, function: pg_sys::Oid) {
    let Started { first_ms, ready_ms, .. } = *started;
    let wait_ms = ready_ms - unix_ms(clock::wall_ns());
    if wait_ms > 0 {
        let level = if wait_ms > LONG_WAIT_MS { PgLogLevel::WARNING } else { PgLogLevel::NOTICE };
        let notice = Message::new(
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            format!("no snowflake is available for the next {}", format_duration(wait_ms.unsigned_abs())),
        )
        .detail(format!(
            "New snowflakes start at {}; calls succeed when the clock is within id_gen.max_lead of that time.",
            format_ms(first_ms)
        ))
        .hint(hint);
        report::tell(notice, level, function);
    }
}

/// A wait that nobody means: a minute.
const LONG_WAIT_MS: i64 = 60_000;

/// The shared state, with this process attached: a decision is for a server that may generate.
fn shared(name: &str) -> Result<&'static SharedState, Error> {
    match backend::attach() {
        Ok(backend) => Ok(backend.shared),
        Err(error) if matches!(error.reason(), Reason::Recovery) => Err(Message::new(
            PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            format!("cannot execute {name} during recovery"),
        )
        .detail("A standby generates no snowflakes.")
        .hint("Run it on this server after its promotion, if snowflakes cannot be generated then.")
        .into()),
        Err(error) => Err(error),
    }
}
