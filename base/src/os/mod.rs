//! The operating system: clocks, the processor's time-stamp counter, random bits, and what a process
//! keeps. Nothing here knows of IDs or of SQL.

pub mod clock;
pub mod process;
pub mod random;
pub mod test_stream;
pub mod tsc;
