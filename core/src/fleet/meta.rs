//! What makes a fleet: its identity, its layout, and the terms that all its servers go by. An administrator
//! makes it, once; servers only read it.

use crate::fleet::grant::Terms;
use crate::layout::Layout;
use crate::time::format_duration;

/// A fleet, as its registry describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Random: a fleet that is made anew under the same name is another one.
    pub id: u128,
    /// The layout of its IDs.
    pub layout: Layout,
    /// What its servers go by.
    pub terms: Terms,
}

/// Why servers can't go by some terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// A duration that can't be zero.
    #[error("renewal_interval must be greater than zero")]
    Zero,
    /// A grant ends before a renewal that failed twice could have been repeated.
    #[error(
        "grant_duration is {}; it must be longer than {} (renewal_interval {} + max_clock_skew {} + {} for requests to the registry)",
        format_duration((*.ahead_ms).into()),
        format_duration(requests_ms + u64::from(*.renewal_ms) + u64::from(*.clock_difference_ms)),
        format_duration((*.renewal_ms).into()),
        format_duration((*.clock_difference_ms).into()),
        format_duration(*.requests_ms)
    )]
    TooShort {
        /// How far a grant reaches.
        ahead_ms: u32,
        /// How often it is renewed.
        renewal_ms: u32,
        /// How far clocks may differ.
        clock_difference_ms: u32,
        /// How long the requests of a renewal may take.
        requests_ms: u64,
    },
    /// A day is as long as anything may be.
    #[error("no duration can be longer than one day")]
    TooLong,
}

/// No duration of a fleet is longer: a day.
const LONGEST_MS: u32 = 86_400_000;

impl Terms {
    /// Whether servers can go by these.
    ///
    /// # Errors
    /// [`TermsError`] says why not.
    pub fn check(&self) -> Result<(), TermsError> {
        let &Terms { ahead_ms, max_lead_ms, clock_difference_ms, renewal_ms, timeout_ms, .. } =
            self;
        if renewal_ms == 0 || timeout_ms == 0 {
            return Err(TermsError::Zero);
        }
        let all = [ahead_ms, max_lead_ms, clock_difference_ms, renewal_ms, timeout_ms];
        if all.into_iter().any(|ms| ms > LONGEST_MS) {
            return Err(TermsError::TooLong);
        }
        let requests_ms = 3 * u64::from(timeout_ms);
        let needed_ms = u64::from(renewal_ms) + requests_ms + u64::from(clock_difference_ms);
        if u64::from(ahead_ms) <= needed_ms {
            return Err(TermsError::TooShort {
                ahead_ms,
                renewal_ms,
                clock_difference_ms,
                requests_ms,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_terms_are_valid() {
        assert_eq!(Terms::DEFAULT.check(), Ok(()));
    }

    #[test]
    fn terms_that_leave_no_time_to_renew_are_refused() {
        let short = Terms { ahead_ms: 14_000, ..Terms::DEFAULT };
        assert_eq!(
            short.check(),
            Err(TermsError::TooShort {
                ahead_ms: 14_000,
                renewal_ms: 5_000,
                clock_difference_ms: 3_000,
                requests_ms: 6_000,
            })
        );
        assert_eq!(Terms { renewal_ms: 0, ..Terms::DEFAULT }.check(), Err(TermsError::Zero));
        assert_eq!(
            Terms { ahead_ms: u32::MAX, ..Terms::DEFAULT }.check(),
            Err(TermsError::TooLong)
        );
    }
}
