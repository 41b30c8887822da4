//! Random bits in bulk: ChaCha with 12 rounds, as in the `rand` crate's standard generator, seeded
//! from the operating system and buffered, so that a UUID costs a few nanoseconds of it.

use once_cell::unsync::OnceCell;
use pgrx::pg_sys;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::process::PerProcess;
use crate::refusal::Refusal;

struct Source {
    rng: ChaCha12Rng,
    /// The process that seeded it: a fork must not repeat its parent's bits.
    pid: i32,
}

static SOURCE: PerProcess<OnceCell<Source>> = PerProcess::new(OnceCell::new());

/// 64 random bits, if this process has seeded its source.
#[inline(always)]
pub fn seeded_bits() -> Option<u64> {
    SOURCE.with(|cell| {
        let source = cell.get_mut()?;
        // SAFETY: set once at process start, never changed after.
        (source.pid == unsafe { pg_sys::MyProcPid }).then(|| source.rng.next_u64())
    })
}

/// 64 random bits.
///
/// # Errors
/// If the operating system gives no seed.
pub fn bits() -> Result<u64, Refusal> {
    seeded_bits().map_or_else(|| SOURCE.with(seed), Ok)
}

#[cold]
#[inline(never)]
fn seed(cell: &mut OnceCell<Source>) -> Result<u64, Refusal> {
    let mut seed = <ChaCha12Rng as SeedableRng>::Seed::default();
    getrandom::fill(&mut seed).map_err(|error| Refusal::NoRandomness(error.to_string()))?;
    // SAFETY: as above.
    let pid = unsafe { pg_sys::MyProcPid };
    let mut rng = ChaCha12Rng::from_seed(seed);
    let bits = rng.next_u64();
    *cell = OnceCell::with_value(Source { rng, pid });
    Ok(bits)
}
