//! Noticing that `pg_upgrade` fills this cluster with the tables, and so with the IDs, of another one.
//!
//! `pg_upgrade` starts both clusters in a mode of their own and loads the library into the new one, but it does so also
//! for `--check`, which only looks, and then the old server goes on. What `--check` never does is to create a table or a
//! function: that is the sign that the cluster is being filled, and that no server runs on the old one. In that mode alone,
//! so on nobody's way else, this watches what is created. A library that is not preloaded is loaded by the first function of
//! the extension that is restored.

use std::ffi::{c_int, c_void};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::reservation;

static mut PREVIOUS_HOOK: pg_sys::object_access_hook_type = None;

/// Watches what is created, if this server is started by `pg_upgrade`.
pub fn watch() {
    // SAFETY: set when the server started; one thread, and the hook chains to the one found before.
    unsafe {
        if pg_sys::IsBinaryUpgrade {
            PREVIOUS_HOOK = pg_sys::object_access_hook;
            pg_sys::object_access_hook = Some(on_access);
        }
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
    let tells = [pg_sys::ProcedureRelationId, pg_sys::RelationRelationId];
    if creates
        && tells.contains(&class)
        && let Err(refusal) = reservation::note_upgrade()
    {
        refusal.raise();
    }
}
