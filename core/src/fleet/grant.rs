//! What the registry keeps: a grant for each number that was ever held, and the terms of the fleet.

/// The numbers of a server within its IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number {
    /// The datacenter number.
    pub datacenter: u32,
    /// The worker number.
    pub worker: u32,
}

/// Who holds a number. All but the first are for people to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Random for each data directory and fleet: which server it is, whatever number it has. 0 of a holder that does not say.
    pub server_id: u128,
    /// The database cluster, as `pg_control` knows it.
    pub system_identifier: u64,
    /// Its timeline.
    pub timeline: u32,
    /// The machine's name.
    pub host: String,
    /// The server's port.
    pub port: u16,
}

/// Whether a number is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GrantState {
    /// Its holder makes IDs.
    Held,
    /// Its holder has stopped, or an administrator has released it.
    Released,
}

/// The value of a number's key. Never deleted: its bound outlives its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Random for each acquisition.
    pub nonce: u128,
    /// Random for each write, so that no two writes have the same value.
    pub tag: u128,
    /// The holder makes no ID of this Unix millisecond or later.
    pub until_ms: i64,
    /// Whether it is in use.
    pub state: GrantState,
    /// The tag of the value that the acquisition replaced: it tells a former holder that nothing of what it was
    /// granted was forgotten when its number was taken.
    pub predecessor: Option<u128>,
    /// Since which Unix millisecond its holder has asked the registry so often that it knows of every restore; before all,
    /// [`Grant::FOUNDER_MS`], for the server that made the fleet. `None` of a holder that does not say.
    pub watches_since_ms: Option<i64>,
    /// Who holds it.
    pub holder: Holder,
}

impl Grant {
    /// Nobody has had a number that the registry could have forgotten before the server that made the fleet.
    pub const FOUNDER_MS: i64 = 0;

    /// What stands for a value that can't be read: of somebody else, for ever, so that its number is nobody's.
    pub fn unreadable() -> Grant {
        Grant {
            nonce: 0,
            tag: 0,
            until_ms: i64::MAX,
            state: GrantState::Held,
            predecessor: None,
            watches_since_ms: None,
            holder: Holder::default(),
        }
    }

    /// Whether it stands for a value that can't be read.
    pub fn is_unreadable(&self) -> bool {
        *self == Grant::unreadable()
    }
}

/// What all servers of a fleet go by. The durations never shrink within a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How far a grant reaches ahead of the clock and its IDs.
    pub ahead_ms: u32,
    /// How far IDs may lead the clock: the largest `id_gen.max_lead` of the fleet.
    pub max_lead_ms: u32,
    /// How far the clocks of two servers may be apart.
    pub clock_difference_ms: u32,
    /// How often a grant is renewed.
    pub renewal_ms: u32,
    /// How long a request may take.
    pub timeout_ms: u32,
}

/// The shortest time between two requests of which the first was of no use, where renewals are further apart.
const LONGEST_RETRY_MS: u64 = 1_000;

impl Terms {
    /// What a fleet is made with.
    pub const DEFAULT: Terms = Terms {
        ahead_ms: 30_000,
        max_lead_ms: 5_000,
        clock_difference_ms: 3_000,
        renewal_ms: 5_000,
        timeout_ms: 2_000,
    };

    /// From now on, how long holders may go on that a restored registry has forgotten. Such a holder was
    /// granted its bound before the registry was restored; the value that the registry was restored to may
    /// reach as far ahead again.
    pub fn forgotten_ms(&self) -> i64 {
        2 * i64::from(self.ahead_ms)
            + i64::from(self.max_lead_ms)
            + i64::from(self.clock_difference_ms)
    }

    /// No server whose clock differs by what is allowed raises the floor further than this, nor a bound. One whose clock was
    /// years ahead must not keep all others from making IDs for ever.
    pub fn believable_ms(&self, until_ms: i64, wall_ms: i64) -> i64 {
        let difference_ms = self.clock_difference_ms.into();
        until_ms.min(wall_ms.saturating_add(self.forgotten_ms()).saturating_add(difference_ms))
    }

    /// End of a grant with this bound by the clock of any server, in Unix milliseconds.
    pub fn over_ms(&self, until_ms: i64) -> i64 {
        until_ms.saturating_add(self.clock_difference_ms.into())
    }

    /// Whether a grant has ended, by a correct clock.
    pub fn is_over(&self, grant: &Grant, wall_ms: i64) -> bool {
        self.over_ms(grant.until_ms) <= wall_ms
    }

    /// After a request of no use the next one follows so much later, and up to twice that: servers that lost the same
    /// registry should not all come back to it at once.
    pub fn retry_ms(&self) -> u64 {
        LONGEST_RETRY_MS.min(self.renewal_ms.max(1).into())
    }

    /// How long after a request the next one is asked, at the latest, by a holder that knows of every restore: any number that
    /// was acquired in between is still waited with.
    pub fn watch_ms(&self) -> u64 {
        self.discovery_ms().saturating_sub(self.timeout_ms.into())
    }

    /// Whether the holder of a grant knows of everything that the registry may have forgotten, if it still renews it: it has
    /// held it for longer than anybody can go on whom the registry has forgotten.
    pub fn is_veteran(&self, grant: &Grant, wall_ms: i64) -> bool {
        let knows = |since_ms: i64| {
            since_ms == Grant::FOUNDER_MS || since_ms.saturating_add(self.forgotten_ms()) <= wall_ms
        };
        grant.state == GrantState::Held && grant.watches_since_ms.is_some_and(knows)
    }

    /// Until when every holder that is neither paused nor cut off has found a restored registry and said so: it comes
    /// back to it for a renewal, or, because a registry is down while it is restored, after a request that timed out;
    /// then an answer, and the request that says it.
    pub fn discovery_ms(&self) -> u64 {
        let timeout_ms = u64::from(self.timeout_ms);
        let return_ms = timeout_ms + 2 * self.retry_ms();
        return_ms.max(self.renewal_ms.into()) + 2 * timeout_ms
    }

    /// The bound to ask for: ahead of the clock and of the IDs, of these no further than they may lead the
    /// clock, and never below the value that is replaced.
    pub fn next_until_ms(&self, wall_ms: i64, frontier_ms: i64, old_until_ms: i64) -> i64 {
        let highest_ms = wall_ms.saturating_add(self.max_lead_ms.into());
        frontier_ms
            .max(wall_ms)
            .min(highest_ms)
            .saturating_add(self.ahead_ms.into())
            .max(old_until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_found_the_registry_down_is_waited_for() {
        for renewal_ms in [1, 500, 1_000, 2_000, 3_000, 5_000, 60_000] {
            let terms = Terms { renewal_ms, timeout_ms: renewal_ms.min(2_000), ..Terms::DEFAULT };
            let timeout_ms = u64::from(terms.timeout_ms);
            // A request that came just too early, the longest pause, what the registry has, and the word to all.
            let told_ms = timeout_ms + 2 * terms.retry_ms() + 2 * timeout_ms;
            assert!(told_ms <= terms.discovery_ms(), "{terms:?}");
            assert!(u64::from(renewal_ms) + 2 * timeout_ms <= terms.discovery_ms(), "{terms:?}");
        }
        assert_eq!(Terms::DEFAULT.discovery_ms(), 9_000);
    }
}
