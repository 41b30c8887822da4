//! At most one event in a while, and how many were suppressed in between: what keeps repeated log
//! lines from filling the log.
//!
//! **Locking.** None: a [`RateLimit`] is two atomics, and of several processes that find an event
//! due, one gets it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::time::NS_PER_S;

/// Least time between two events: 10 s.
pub const INTERVAL_NS: u64 = 10 * NS_PER_S;

/// When an event was last admitted, and how many were suppressed since.
#[derive(Debug, Default)]
pub struct RateLimit {
    /// On the monotonic clock; zero for never.
    admitted_at_ns: AtomicU64,
    suppressed: AtomicU64,
}

impl RateLimit {
    /// Whether an event is admitted now; if so, how many were suppressed since the one before.
    pub fn admit(&self, now_ns: u64) -> Option<u64> {
        let at_ns = self.admitted_at_ns.load(Relaxed);
        let due = at_ns == 0 || now_ns.saturating_sub(at_ns) >= INTERVAL_NS;
        if due && self.admitted_at_ns.compare_exchange(at_ns, now_ns, Relaxed, Relaxed).is_ok() {
            Some(self.suppressed.swap(0, Relaxed))
        } else {
            self.suppressed.fetch_add(1, Relaxed);
            None
        }
    }

    /// How many events were suppressed that no later event will report, because none came for a
    /// whole interval; `None` if there are none.
    pub fn take_overdue(&self, now_ns: u64) -> Option<u64> {
        let age_ns = now_ns.saturating_sub(self.admitted_at_ns.load(Relaxed));
        if age_ns < INTERVAL_NS || self.suppressed.load(Relaxed) == 0 {
            return None;
        }
        self.admit(now_ns).filter(|&suppressed| suppressed > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_an_interval_and_a_count_of_the_others() {
        let limit = RateLimit::default();
        let start_ns = 5 * NS_PER_S;
        assert_eq!(limit.admit(start_ns), Some(0));
        assert_eq!(limit.admit(start_ns + 1), None);
        assert_eq!(limit.admit(start_ns + INTERVAL_NS - 1), None);
        assert_eq!(limit.take_overdue(start_ns + INTERVAL_NS - 1), None);
        assert_eq!(limit.admit(start_ns + INTERVAL_NS), Some(2));
    }

    #[test]
    fn what_no_event_reports_is_overdue_once() {
        let limit = RateLimit::default();
        assert_eq!(limit.take_overdue(INTERVAL_NS), None);
        assert_eq!(limit.admit(INTERVAL_NS), Some(0));
        assert_eq!(limit.admit(INTERVAL_NS + 1), None);
        assert_eq!(limit.take_overdue(2 * INTERVAL_NS), Some(1));
        assert_eq!(limit.take_overdue(3 * INTERVAL_NS), None);
    }
}
