//! Random bits in bulk: ChaCha with 12 rounds, as in the `rand` crate's standard generator, seeded
//! from the operating system, so that a UUID costs a few nanoseconds of it.
//!
//! On a server for tests they come from its own stream ([`crate::os::test_stream`]); no process of it seeds a source.
//!
//! The generator writes its output into the buffer that bits are taken from, 256 bytes at a time.

use once_cell::unsync::OnceCell;
use pgrx::pg_sys;
use rand_chacha::ChaCha12Core;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::rand_core::block::BlockRngCore;

use crate::os::process::PerProcess;
use crate::os::test_stream;

struct Source {
    generator: ChaCha12Core,
    output: <ChaCha12Core as BlockRngCore>::Results,
    /// How many pairs of words of it are used up.
    used: usize,
    /// The process that seeded it: a fork must not repeat its parent's bits.
    pid: i32,
}

impl Source {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        loop {
            let (pairs, _) = self.output.as_ref().as_chunks();
            if let Some(&[low, high]) = pairs.get(self.used) {
                self.used += 1;
                return u64::from(high) << u32::BITS | u64::from(low);
            }
            self.refill();
        }
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        self.generator.generate(&mut self.output);
        self.used = 0;
    }
}

static SOURCE: PerProcess<OnceCell<Source>> = PerProcess::new(OnceCell::new());

/// 64 random bits, if this process has seeded its source.
#[inline(always)]
pub fn seeded_bits() -> Option<u64> {
    SOURCE.with(|cell| {
        let source = cell.get_mut()?;
        // SAFETY: set once at process start, never changed after.
        (source.pid == unsafe { pg_sys::MyProcPid }).then(|| source.next())
    })
}

/// Whether this process has seeded its source.
#[inline(always)]
pub fn is_seeded() -> bool {
    SOURCE.with(|cell| {
        // SAFETY: as above.
        cell.get().is_some_and(|source| source.pid == unsafe { pg_sys::MyProcPid })
    })
}

/// 64 random bits.
///
/// # Errors
/// If the operating system gives no seed.
pub fn bits() -> Result<u64, getrandom::Error> {
    seeded_bits().map_or_else(|| SOURCE.with(seed), Ok)
}

/// Random numbers straight from the operating system: a copy of this process, as of a virtual machine's memory, must
/// not get the same.
///
/// # Errors
/// If the operating system gives none.
pub fn fresh(numbers: &mut [u128]) -> Result<(), getrandom::Error> {
    for number in numbers {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        *number = u128::from_ne_bytes(bytes);
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn seed(cell: &mut OnceCell<Source>) -> Result<u64, getrandom::Error> {
    if let Some(stream) = test_stream::stream() {
        return Ok(stream.draw());
    }
    let mut seed = <ChaCha12Core as SeedableRng>::Seed::default();
    getrandom::fill(&mut seed)?;
    // SAFETY: as above.
    let pid = unsafe { pg_sys::MyProcPid };
    let generator = ChaCha12Core::from_seed(seed);
    let mut source = Source { generator, output: Default::default(), used: 0, pid };
    source.refill();
    let bits = source.next();
    *cell = OnceCell::with_value(source);
    Ok(bits)
}
