//! The library with the registries, beside this one: opened by the process that asks a registry, at its first connection.
//! No other process has code that opens connections or reads secrets.
//!
//! It is opened by its place, in the directory that this library was loaded from, and with the system's loader:
//! PostgreSQL's own asks for what ties a library to one version of PostgreSQL. It is closed only if it is not the one that
//! belongs to this library: the loader would still answer with it after another was installed.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use id_gen_core::fleet::driver::{Borrowed, Driver, Handle, Owned, SYMBOL, VERSION};
use id_gen_core::fleet::store::{Store, StoreError, StoreErrorKind};
use id_gen_core::fleet::wire::{self, Options, Remote, Seen};
use once_cell::sync::OnceCell;

/// The file of the library.
const FILE: &str = "id_gen_registry.so";

static DRIVER: OnceCell<&'static Driver> = OnceCell::new();

/// A store of the library's.
struct OpenStore(&'static Driver, Handle);

// SAFETY: the library makes stores that any thread may use, one at a time.
unsafe impl Send for OpenStore {}

impl Drop for OpenStore {
    fn drop(&mut self) {
        let OpenStore(driver, store) = *self;
        // SAFETY: opened by this driver, and used no more.
        unsafe { (driver.close)(store) };
    }
}

/// Opens a store. Its calls may wait for a network.
///
/// # Errors
/// If the library cannot be loaded, or opens no such store.
pub fn open(options: &Options, seen: Seen) -> Result<impl Store + Send + use<>, StoreError> {
    let driver = *DRIVER.get_or_try_init(load)?;
    let mut store: Handle = ptr::null_mut();
    let options = wire::encode(options);
    // SAFETY: the bytes and the variable are there until the function returns.
    let answer = unsafe { (driver.open)(borrowed(&options), &raw mut store) };
    wire::decode::<Result<(), StoreError>>(&taken(driver, answer))??;
    let store = OpenStore(driver, store);
    Ok(Remote::new(
        move |call: &[u8]| {
            let OpenStore(driver, handle) = &store;
            // SAFETY: an open store, which only this function calls; the bytes are there until it returns.
            taken(driver, unsafe { (driver.call)(*handle, borrowed(call)) })
        },
        seen,
    ))
}

const fn borrowed(bytes: &[u8]) -> Borrowed {
    Borrowed { data: bytes.as_ptr(), length: bytes.len() }
}

/// A copy of the driver's bytes, which are given back.
fn taken(driver: &Driver, bytes: Owned) -> Vec<u8> {
    // SAFETY: bytes that the driver has just given away.
    unsafe {
        let copy = std::slice::from_raw_parts(bytes.data, bytes.length).to_vec();
        (driver.free)(bytes);
        copy
    }
}

fn load() -> Result<&'static Driver, StoreError> {
    let path = directory().join(FILE);
    let failed = |detail: String| {
        let (kind, server) = (StoreErrorKind::Driver, path.display().to_string());
        Err(StoreError { kind, server, detail })
    };
    // SAFETY: the library runs nothing when it is opened. The symbol is its own, of this type.
    unsafe {
        let library = libc::dlopen(text(&path).as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return failed(loader_says());
        }
        let symbol = libc::dlsym(library, SYMBOL.as_ptr());
        if symbol.is_null() {
            let said = loader_says();
            libc::dlclose(library);
            return failed(said);
        }
        let table: extern "C" fn() -> *const Driver = std::mem::transmute(symbol);
        let driver: &'static Driver = &*table();
        if driver.version != VERSION {
            let [found, ours] = [driver.version, VERSION]
                .map(|version| String::from_utf8_lossy(&version).trim_end_matches('\0').to_owned());
            libc::dlclose(library);
            return failed(format!("its version is {found}, and that of id_gen.so is {ours}"));
        }
        Ok(driver)
    }
}

fn text(path: &Path) -> CString {
    // The system's loader knows no path with a NUL in it.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// The directory that this library was loaded from.
fn directory() -> PathBuf {
    let here: fn() -> PathBuf = directory;
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `found` is valid to write to; if the function has filled it, its name is a text that lives as long as the library.
    let file = unsafe {
        if libc::dladdr(here as *const c_void, found.as_mut_ptr()) == 0 {
            return PathBuf::new();
        }
        let name: *const c_char = found.assume_init().dli_fname;
        Path::new(OsStr::from_bytes(CStr::from_ptr(name).to_bytes())).to_owned()
    };
    file.parent().map(Path::to_owned).unwrap_or_default()
}

/// The loader's error message for its last call on this thread.
fn loader_says() -> String {
    // SAFETY: a text of the loader's that lasts until its next call on this thread, or null.
    unsafe {
        let said = libc::dlerror();
        if said.is_null() {
            String::new()
        } else {
            CStr::from_ptr(said).to_string_lossy().into_owned()
        }
    }
}
