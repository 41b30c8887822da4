//! The parameter that names the file of the masks' keys, and its value as this process last read it.
//!
//! It is text, so unlike the settings of generating it is not in shared memory: each session reads the file that it
//! knows of.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use id_gen_base::settings::known::OwnSettings;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;

/// The parameters that begin with `id_gen_mask.`
pub static OWN: OwnSettings = OwnSettings::new("id_gen_mask", None);

static KEY_FILE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));

/// The file of keys; `None` if there is none. A relative path begins in the data directory, where every process of a
/// server works.
pub fn key_file() -> Option<PathBuf> {
    let path = KEY_FILE.get().unwrap_or_default().into_bytes();
    (!path.is_empty()).then(|| OsString::from_vec(path).into())
}

/// Defines the parameter. Called once, when the library is loaded.
pub fn define() {
    OWN.before_definition();
    GucRegistry::define_string_guc(
        c"id_gen_mask.key_file",
        c"Sets the file of the keys for masking IDs.",
        c"Each line is a version and 64 hexadecimal digits. A relative path is relative to the data directory. Empty: IDs cannot be masked.",
        &KEY_FILE,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    // SAFETY: a name that lasts; no parameter but those of this library begin with it.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"id_gen_mask".as_ptr()) };
    OWN.after_definition();
}
