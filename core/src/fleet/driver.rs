//! The driver's table of functions: what the library with the stores offers to the server's library, which opens it at run
//! time. Each takes and returns bytes, as [`wire`](crate::fleet::wire) has them.
//!
//! Two libraries share no memory management, no statics and no panics: what one side allocates it frees, and nothing but
//! this table passes between them.

use std::ffi::c_void;

/// The name of the one function that the driver exports. It returns the table.
pub const SYMBOL: &std::ffi::CStr = c"id_gen_registry_driver";

/// The version of both libraries, followed by zeros. A driver of another one is refused.
pub const VERSION: [u8; 32] = padded(env!("CARGO_PKG_VERSION"));

const fn padded(text: &str) -> [u8; 32] {
    let (text, mut bytes, mut index) = (text.as_bytes(), [0; 32], 0);
    while index < text.len() {
        bytes[index] = text[index];
        index += 1;
    }
    bytes
}

/// Bytes of whoever calls, for as long as the call takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Borrowed {
    /// The first byte.
    pub data: *const u8,
    /// The number of bytes.
    pub length: usize,
}

/// Bytes of the driver's, until [`Driver::free`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    /// The first byte.
    pub data: *mut u8,
    /// The number of bytes.
    pub length: usize,
}

/// An open store. Null: there is none.
pub type Handle = *mut c_void;

/// The table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// [`VERSION`] of the driver; first in every version.
    pub version: [u8; 32],
    /// Opens a store, by its options. Returns why there is none, or nothing.
    pub open: unsafe extern "C" fn(options: Borrowed, store: *mut Handle) -> Owned,
    /// Calls a store. One call at a time.
    pub call: unsafe extern "C" fn(store: Handle, call: Borrowed) -> Owned,
    /// Closes a store.
    pub close: unsafe extern "C" fn(store: Handle),
    /// Gives bytes back.
    pub free: unsafe extern "C" fn(bytes: Owned),
}
