//! The note that `pg_upgrade` filled this cluster with the tables, and so with the IDs, of another one.
//! It carries no file of ours over, so the new server has to start above the time when that was.
//!
//! `pg_upgrade` starts both clusters in a mode of their own and loads the library into the new one, but
//! it does so also for `--check`, which only looks, and then the old server goes on. What `--check`
//! never does is to create a table or a function: that is the sign that the cluster is being filled, and
//! that no server runs on the old one. So this notices what is created, in that mode alone. A library
//! that is not preloaded is loaded by the first function of the extension that is restored.

use std::ffi::{c_int, c_void};

use id_gen_core::clock::ClockReading;
use id_gen_core::reservation::UPGRADE_FILE;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::durable::file;
use crate::error::{Error, Reason, report};
use crate::os::clock;
use crate::pg::server;

static mut PREVIOUS_HOOK: pg_sys::object_access_hook_type = None;

/// Notices what is created, if this server was started by `pg_upgrade`.
pub fn notice_creations() {
    if !server::is_binary_upgrade() {
        return;
    }
    // SAFETY: one thread, and the hook chains to the one found before.
    unsafe {
        PREVIOUS_HOOK = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(on_access);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: c_int,
    argument: *mut c_void,
) {
    // SAFETY: the arguments that PostgreSQL passed.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            previous(access, class, object, part, argument);
        }
    }
    let creates = access == pg_sys::ObjectAccessType::OAT_POST_CREATE;
    let fills = [pg_sys::ProcedureRelationId, pg_sys::RelationRelationId].contains(&class);
    if creates
        && fills
        && let Err(error) = write()
    {
        report::raise(error);
    }
}

/// Writes the note. Several processes of an upgrade may do this at the same time.
fn write() -> Result<(), Error> {
    let temporary = format!("{UPGRADE_FILE}.{}", std::process::id());
    let text = format!("{}\n", clock::machine_both().wall_ms());
    file::make_directory_durably()
        .and_then(|()| file::replace(&temporary, UPGRADE_FILE, text.as_bytes()))
        .map_err(|error| Reason::UpgradeUnwritten((&error).into()).into())
}

/// When this cluster was filled by `pg_upgrade`, in Unix milliseconds, if it was and nothing was
/// reserved since. A note that can't be understood counts as now.
///
/// # Errors
/// If there is a note that can't be read.
pub fn time_ms(now: ClockReading) -> Result<Option<i64>, Error> {
    let note =
        file::read(UPGRADE_FILE).map_err(|error| Reason::UpgradeUnreadable((&error).into()))?;
    Ok(note.map(|note| {
        let written_ms = std::str::from_utf8(&note).ok().and_then(|text| text.trim().parse().ok());
        written_ms.unwrap_or_else(|| now.wall_ms())
    }))
}

/// Removes the note, once a reservation takes account of it.
///
/// # Errors
/// If it can't be removed.
pub fn remove() -> Result<(), Error> {
    file::remove(UPGRADE_FILE).map_err(|error| Reason::Unwritten((&error).into()).into())
}
