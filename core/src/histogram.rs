//! How long waits took, counted by powers of two.
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
