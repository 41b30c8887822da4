#![no_main]

#[path = "../laws.rs"]
#[allow(dead_code)] // the other targets' laws
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::codec(input));
