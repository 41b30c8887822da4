//! How long waits took, counted by powers of two, and what share of them was how short.
//!
//! Bucket `i` counts times above `2^(i-1)` µs and up to `2^i` µs, the last one all that are longer.
//! The caller keeps the counts.

use crate::time::NS_PER_US;

/// How many buckets there are. The longest wait that can be set, 10 minutes, lies within the last
/// but one, which ends at 2^30 µs: 18 minutes.
pub const BUCKETS: usize = 32;

/// The bucket of a time.
pub const fn bucket(ns: u64) -> usize {
    let us = ns.div_ceil(NS_PER_US);
    let index = (u64::BITS - us.saturating_sub(1).leading_zeros()) as usize;
    if index < BUCKETS { index } else { BUCKETS - 1 }
}

/// The longest time of a bucket in microseconds, infinite for the last.
pub fn at_most_us(bucket: usize) -> f64 {
    if bucket + 1 < BUCKETS { (1u64 << bucket) as f64 } else { f64::INFINITY }
}

/// The time in microseconds that this fraction of all waits stayed within, as far as buckets tell:
/// times are taken to be spread evenly within theirs. `None` if there were none, or the fraction is
/// not between 0 and 1.
pub fn percentile_us(counts: &[u64; BUCKETS], fraction: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    if total == 0 || !(0.0..=1.0).contains(&fraction) {
        return None;
    }
    let rank = fraction * total as f64;
    let mut below = 0.0;
    for (bucket, &count) in counts.iter().enumerate() {
        let count = count as f64;
        if count > 0.0 && below + count >= rank {
            let low = if bucket == 0 { 0.0 } else { at_most_us(bucket - 1) };
            let high = at_most_us(bucket);
            // Of the last bucket only the lower end is known.
            let inside = if high.is_finite() { (high - low) * (rank - below) / count } else { 0.0 };
            return Some(low + inside);
        }
        below += count;
    }
    None
}
