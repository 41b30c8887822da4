//! The inputs that the fuzzer has found interesting, without the fuzzer.

use std::fs;
use std::path::Path;

#[path = "../fuzz/laws.rs"]
mod laws;

fn replay(corpus: &str, law: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(corpus);
    let mut replayed = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let file = entry.unwrap().path();
        // Shown only if the law does not hold.
        println!("{}", file.display());
        law(&fs::read(&file).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "nothing in {}", directory.display());
}

#[test]
fn codecs() {
    replay("codec", laws::codec);
}

#[test]
fn layouts() {
    replay("layout", laws::layout);
}

#[test]
fn records() {
    replay("record", laws::record);
}

#[test]
fn uuids() {
    replay("uuid", laws::uuid);
}
