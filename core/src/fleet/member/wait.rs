//! The wait after an acquisition, for the news that the registry was restored: a server that notices a restore announces it, and
//! raises the floor.
//!
//! It takes [`Terms::discovery_ms`](crate::fleet::Terms::discovery_ms) where a server renews meanwhile that would have noticed
//! ([`Terms::is_veteran`](crate::fleet::Terms::is_veteran)), and else as long as a holder may go on that the registry has
//! forgotten ([`Terms::forgotten_ms`](crate::fleet::Terms::forgotten_ms)).

use super::{Event, HeldNumber, LocalInputs, Member, State};
use crate::fleet::grant::Grant;
use crate::fleet::registry::Listing;

/// A wait that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wait {
    pub(super) since_boot_ms: u64,
    /// Unix millisecond from which on no holder goes on that the registry has forgotten.
    pub(super) forgotten_ms: i64,
    /// Time of the last listing.
    pub(super) listed_boot_ms: Option<u64>,
    /// The tags that the grants of others had when the wait began.
    pub(super) tags: Vec<u128>,
    /// This server made the fleet, so the wait ends without a veteran.
    pub(super) is_of_founder: bool,
    /// An administrator has ended it.
    pub(super) is_ended: bool,
}

impl Member {
    /// Time of the next listing during the wait: at its beginning, when it may be over, as often as grants are renewed from then
    /// on, at its end, and when an administrator has ended it.
    pub(super) fn listing_boot_ms(&self, held: &HeldNumber) -> Option<u64> {
        let wait = held.wait.as_ref()?;
        let listed_boot_ms = wait.listed_boot_ms.filter(|_| !wait.is_ended);
        let Some(listed_boot_ms) = listed_boot_ms else { return Some(0) };
        let after = |ms: u64| wait.since_boot_ms.saturating_add(ms);
        let ends = [self.terms.discovery_ms(), self.terms.forgotten_ms().unsigned_abs()].map(after);
        let again = listed_boot_ms.saturating_add(self.terms.renewal_ms.max(1).into());
        match ends {
            [first, _] if listed_boot_ms < first => Some(first),
            [_, last] if listed_boot_ms < last => Some(again.min(last)),
            _ => Some(again),
        }
    }

    pub(super) fn listing_is_due(&self, held: &HeldNumber, local: &LocalInputs) -> bool {
        self.listing_boot_ms(held).is_some_and(|at| at <= local.boot_ms)
    }

    /// End of a wait in Unix milliseconds, if no veteran is seen before.
    pub(super) fn wait_ends_ms(&self, wait: &Wait) -> i64 {
        if !wait.is_of_founder {
            return wait.forgotten_ms;
        }
        let since_ms = wait.forgotten_ms.saturating_sub(self.terms.forgotten_ms());
        since_ms.saturating_add_unsigned(self.terms.discovery_ms())
    }

    /// Processes a listing during the wait, which may be over.
    pub(super) fn listed_in_wait(&mut self, listing: &Listing, local: &LocalInputs) -> Event {
        let State::Holding(held) = &self.state else { return Event::Quiet };
        let own = listing.grants.iter().find(|(number, _)| *number == held.number);
        let own = own.map(|(_, grant)| grant);
        if own != Some(&held.grant) {
            return self.found(own.cloned(), local);
        }
        let others = listing.grants.iter().filter(|(number, _)| *number != held.number);
        let others: Vec<&Grant> = others.map(|(_, grant)| grant).collect();
        let floor_ms = self.terms.believable_ms(listing.floor_ms, local.wall_ms);
        let terms = self.terms;
        let State::Holding(HeldNumber { wait, first_ms, others_ms, .. }) = &mut self.state else {
            return Event::Quiet;
        };
        let Some(waits) = wait else { return Event::Quiet };
        if waits.listed_boot_ms.is_none() {
            waits.tags = others.iter().map(|grant| grant.tag).collect();
        }
        waits.listed_boot_ms = Some(local.boot_ms);
        let passed_ms = local.boot_ms.saturating_sub(waits.since_boot_ms);
        let is_renewed = |grant: &&Grant| !waits.tags.contains(&grant.tag);
        let sees_veteran =
            || others.iter().any(|it| is_renewed(it) && terms.is_veteran(it, local.wall_ms));
        let ends_ms = if passed_ms >= terms.forgotten_ms().unsigned_abs() {
            floor_ms.max(waits.forgotten_ms)
        } else if waits.is_ended
            || passed_ms >= terms.discovery_ms() && (waits.is_of_founder || sees_veteran())
        {
            floor_ms
        } else {
            return Event::Quiet;
        };
        (*first_ms, *others_ms) = ((*first_ms).max(ends_ms), (*others_ms).max(ends_ms));
        *wait = None;
        Event::Quiet
    }
}
