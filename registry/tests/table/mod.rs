//! The table of functions, used as the server's library uses it.

use std::ptr;

use id_gen_core::fleet::driver::{Borrowed, Driver, Handle, Owned, VERSION};
use id_gen_core::fleet::store::{Store, StoreError, StoreErrorKind as Kind};
use id_gen_core::fleet::wire::{self, Options, Remote, Seen};
use id_gen_registry::driver::id_gen_registry_driver;

use crate::servers::Stub;

const AT_5: &str = r#"{"header":{"cluster_id":"1","revision":"5"}}"#;
const AT_4: &str = r#"{"header":{"cluster_id":"1","revision":"4"}}"#;

fn table() -> &'static Driver {
    // SAFETY: a constant of the library's.
    unsafe { &*id_gen_registry_driver() }
}

fn taken(bytes: Owned) -> Vec<u8> {
    // SAFETY: bytes that the table has just given away.
    unsafe {
        let copy = std::slice::from_raw_parts(bytes.data, bytes.length).to_vec();
        (table().free)(bytes);
        copy
    }
}

fn borrowed(bytes: &[u8]) -> Borrowed {
    Borrowed { data: bytes.as_ptr(), length: bytes.len() }
}

fn open(options: &[u8]) -> Result<Handle, StoreError> {
    let mut store: Handle = ptr::null_mut();
    // SAFETY: the bytes and the variable are there until it returns.
    let answer = taken(unsafe { (table().open)(borrowed(options), &raw mut store) });
    wire::decode::<Result<(), StoreError>>(&answer)??;
    Ok(store)
}

fn options(registry: &str) -> Vec<u8> {
    wire::encode(&Options {
        registry: registry.to_owned(),
        timeout_ms: 5000,
        ca_file: None,
        cert_file: None,
        key_file: None,
        user: None,
        password_file: None,
    })
}

#[test]
fn a_store_is_opened_called_and_closed_and_what_it_saw_goes_on() {
    assert_eq!(table().version, VERSION);
    let stub = Stub::saying("200 OK", AT_5);
    let seen = Seen::default();
    let store = open(&options(&stub.endpoint())).unwrap();
    // SAFETY: an open store, used here alone.
    let pass = |call: &[u8]| taken(unsafe { (table().call)(store, borrowed(call)) });
    let mut remote = Remote::new(pass, seen.clone());
    assert_eq!(remote.get("/id_gen/x"), Ok(None));
    assert_eq!(remote.list("/id_gen/"), Ok(vec![]));
    // SAFETY: used no more.
    unsafe { (table().close)(store) };

    let older = Stub::saying("200 OK", AT_4);
    let store = open(&options(&older.endpoint())).unwrap();
    // SAFETY: as above.
    let pass = |call: &[u8]| taken(unsafe { (table().call)(store, borrowed(call)) });
    let error = Remote::new(pass, seen).get("/id_gen/x").unwrap_err();
    assert_eq!(error.kind, Kind::Restored);
    // SAFETY: as above.
    unsafe { (table().close)(store) };
}

#[test]
fn what_is_no_registry_is_not_opened() {
    for options in [options("zookeeper://host:1"), options("etcd://h:x")] {
        assert!(matches!(open(&options).unwrap_err().kind, Kind::Address | Kind::Unexpected));
    }
    assert_eq!(open(b"").unwrap_err().kind, Kind::Unexpected);
    let store = open(&options("etcd://127.0.0.1:1")).unwrap();
    // SAFETY: an open store; closed right after.
    let answer = unsafe { taken((table().call)(store, borrowed(b"nonsense"))) };
    // SAFETY: used no more.
    unsafe { (table().close)(store) };
    assert!(String::from_utf8(answer).unwrap().contains("Unexpected"));
}
