//! The check hooks of the server's numbers: `ALTER SYSTEM` is warned of one that the layout has no room for.
//!
//! It is no more than a warning. The layout may be about to change, too, and a number that does not fit does no harm: the
//! server refuses to generate with it.

use std::ffi::{c_int, c_void};

use id_gen_core::layout::Field;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::error::{Reason, report};
use crate::pg::server;
use crate::settings::layout_check_hook::{layout, layout_in_force};

/// The check hook of `id_gen.worker_id`.
#[pg_guard]
pub unsafe extern "C-unwind" fn check_worker_id(
    value: *mut c_int,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    warn_if_out_of_range(Field::Worker, unsafe { *value });
    true
}

/// The check hook of `id_gen.datacenter_id`.
#[pg_guard]
pub unsafe extern "C-unwind" fn check_datacenter_id(
    value: *mut c_int,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: as above.
    warn_if_out_of_range(Field::Datacenter, unsafe { *value });
    true
}

fn warn_if_out_of_range(field: Field, value: i32) {
    // Only the number that means "not set" is negative.
    if value < 0 || !server::is_in_alter_system() {
        return;
    }
    let Some(layout) = layout_in_force().unwrap_or_else(|| layout().ok()) else { return };
    if let Err(error) = layout.number(field, value.into()) {
        report::log(&Reason::NumberOutOfRange(error, layout).into(), PgLogLevel::WARNING);
    }
}
