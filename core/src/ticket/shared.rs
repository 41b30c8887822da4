//! What a fleet's registry says of a ticket: the next number that no server has, and with which step its numbers
//! follow each other.
//!
//! A server takes a range by replacing the value with one whose next number comes after the range. Whoever changes the
//! value otherwise counts its *epoch* up: servers drop the ranges that they have of another epoch.

use serde::{Deserialize, Serialize};

use crate::fleet::store::{Keys, KeysError, Store, StoreError, StoreErrorKind};
use crate::fleet::values::ValueKind;
use crate::ticket::steps::{Run, Steps};

/// A ticket in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The next number that no server has.
    pub next: i64,
    /// From one number to the next.
    pub step: i64,
    /// How many times somebody has set it.
    pub epoch: u64,
    /// Whether a server has found that it has used numbers that are still to come by this: the registry was brought back from
    /// an older backup. Nobody takes a range until somebody sets it.
    pub is_behind: bool,
}

/// Numbers as text: JSON readers round large ones.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SharedText {
    next: String,
    step: String,
    epoch: String,
    /// `open`, or `behind`.
    state: String,
}

/// What a server has used of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The last number.
    pub last: i64,
    /// Whether that was a ticket, and not what `setval()` or `nextval()` came to.
    pub by_tickets: bool,
}

/// What one asks a registry for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The ticket's name there.
    pub name: String,
    /// The numbers of this server's sequence.
    pub steps: Steps,
    /// How many.
    pub count: u32,
    /// What this server has used.
    pub used: Option<Used>,
}

/// Numbers that a registry has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Numbers that no other server gets.
    pub run: Run,
    /// The epoch of the ticket that they are of.
    pub epoch: u64,
}

/// Why there is no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRange {
    /// The registry has no such ticket.
    NotShared,
    /// The registry's value is none of ours.
    Damaged,
    /// All numbers of the sequence are taken.
    Ended,
    /// The sequence of this server has another step.
    OtherStep {
        /// The registry's.
        step: i64,
    },
    /// Numbers that are to come have been used.
    Behind {
        /// The first of them.
        next: i64,
    },
    /// The sequence's last numbers came from a registry, and the server has none now.
    LeftFleet,
}

/// What a registry answers to [`Wanted`].
pub type Answer = Result<Range, NoRange>;

impl Shared {
    /// Its text.
    pub fn encode(&self) -> String {
        let Shared { next, step, epoch, is_behind } = self;
        let text = SharedText {
            next: next.to_string(),
            step: step.to_string(),
            epoch: epoch.to_string(),
            state: if *is_behind { "behind" } else { "open" }.to_owned(),
        };
        // A structure of texts has a text.
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// What a text says. There is one text for each value and no other: `None` for any that is not written so.
    pub fn decode(text: &str) -> Option<Shared> {
        let read: SharedText = serde_json::from_str(text).ok()?;
        let shared = Shared {
            next: read.next.parse().ok()?,
            step: read.step.parse().ok()?,
            epoch: read.epoch.parse().ok()?,
            is_behind: read.state == "behind",
        };
        (shared.step > 0 && shared.encode() == text).then_some(shared)
    }

    /// Takes so many numbers, or as many as are left: the numbers, and what the registry says then. They have to lie above
    /// what this server has used.
    ///
    /// # Errors
    /// If there are none for this sequence.
    pub fn take(
        &self,
        steps: &Steps,
        wanted: u32,
        used: Option<Used>,
    ) -> Result<(Run, Shared), NoRange> {
        if self.is_behind || used.is_some_and(|used| self.next <= used.last) {
            return Err(NoRange::Behind { next: self.next });
        }
        if self.step != steps.step {
            return Err(NoRange::OtherStep { step: self.step });
        }
        // The last number of all is never taken, so that there is always a next one.
        let last = Steps { max: steps.max.min(i64::MAX - steps.step), ..*steps };
        let run = last.run(self.next, wanted).ok_or(NoRange::Ended)?;
        let next = last.after(run).ok_or(NoRange::Ended)?;
        Ok((run, Shared { next, ..*self }))
    }
}

/// Takes a range.
///
/// # Errors
/// If the store has no answer. The range may be taken nevertheless, and is lost.
pub fn take<S: Store>(keys: &mut Keys<S>, wanted: &Wanted) -> Result<Answer, KeysError> {
    let Wanted { name, steps, count, used } = wanted;
    replace(keys, name, |found| {
        let shared = Shared::decode(found.ok_or(NoRange::NotShared)?).ok_or(NoRange::Damaged)?;
        match shared.take(steps, *count, *used) {
            Ok((run, new)) => Ok((Ok(Range { run, epoch: shared.epoch }), new)),
            // The others are told, before one of them takes what was used. Not of what any role may have done that owns a
            // sequence of this name.
            Err(none @ NoRange::Behind { .. })
                if !shared.is_behind && used.is_some_and(|used| used.by_tickets) =>
            {
                Ok((Err(none), Shared { is_behind: true, ..shared }))
            }
            Err(none) => Err(none),
        }
    })
}

/// A ticket that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// The next number that the registry gives.
    pub next: i64,
    /// Whether the registry had none before.
    pub is_new: bool,
}

/// Sets a ticket: it goes on with `next`, or by whole steps later, above what the registry says and above `above`, if given.
/// A damaged value is replaced only above a number that was given, and there may be no number so large.
///
/// # Errors
/// If the store has no answer.
pub fn set<S: Store>(
    keys: &mut Keys<S>,
    name: &str,
    step: i64,
    next: i64,
    above: Option<i64>,
) -> Result<Result<Set, NoRange>, KeysError> {
    replace(keys, name, |found| {
        let old = found.map(Shared::decode);
        let epoch = match old {
            Some(None) if above.is_none() => return Err(NoRange::Damaged),
            // Servers may have ranges of any epoch, but hardly of this.
            Some(None) => u64::MAX >> 1,
            Some(Some(old)) => old.epoch.wrapping_add(1),
            None => 0,
        };
        let next = beginning(next, step, above, old.flatten()).ok_or(NoRange::Ended)?;
        let set = Set { next, is_new: old.is_none() };
        Ok((Ok(set), Shared { next, step, epoch, is_behind: false }))
    })
}

/// Replaces a ticket's value: `change` says with what, and what comes of it. A value that others have changed meanwhile is
/// read again.
fn replace<S: Store, R>(
    keys: &mut Keys<S>,
    name: &str,
    change: impl Fn(Option<&str>) -> Result<(Result<R, NoRange>, Shared), NoRange>,
) -> Result<Result<R, NoRange>, KeysError> {
    const TRIES: usize = 20;
    let mut found = keys.value(ValueKind::Ticket, name)?;
    for _ in 0..TRIES {
        let (result, new) = match change(found.as_deref()) {
            Ok(changed) => changed,
            Err(none) => return Ok(Err(none)),
        };
        match keys.swap_value(ValueKind::Ticket, name, found.as_deref(), &new.encode())? {
            Ok(()) => return Ok(result),
            Err(other) => found = other,
        }
    }
    Err(KeysError::Store(StoreError {
        kind: StoreErrorKind::TimedOut,
        server: "the registry".to_owned(),
        detail: "other servers have changed the ticket each time".to_owned(),
    }))
}

/// The first number, from `next` on by whole steps, that is not below any of these.
fn beginning(next: i64, step: i64, above: Option<i64>, old: Option<Shared>) -> Option<i64> {
    let (next, step) = (i128::from(next), i128::from(step.max(1)));
    let above = above.map_or(next, |above| i128::from(above) + 1);
    let least = next.max(above).max(old.map_or(next, |old| old.next.into()));
    let steps = (least - next + step - 1) / step;
    i64::try_from(next + steps * step).ok()
}

/// Under which name a registry has a sequence: database, schema and sequence. What is neither a letter, a digit, `_` nor
/// `-` is written as its bytes, so that no two sequences have one name.
pub fn name(database: &[u8], schema: &[u8], sequence: &[u8]) -> String {
    format!("{}/{}.{}", escaped(database), escaped(schema), escaped(sequence))
}

fn escaped(text: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"_-".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::store::tests::fleet;

    const STEPS: Steps = Steps { step: 1, min: 1, max: 1000 };
    const NEW: Shared = Shared { next: 1, step: 1, epoch: 2, is_behind: false };

    const fn by_tickets(last: i64) -> Used {
        Used { last, by_tickets: true }
    }

    fn wanted(count: u32, used: Option<i64>) -> Wanted {
        let used = used.map(by_tickets);
        Wanted { name: "t".to_owned(), steps: STEPS, count, used }
    }

    #[test]
    fn a_value_has_one_text() {
        let shared = Shared { next: 7, ..NEW };
        let text = shared.encode();
        assert_eq!(text, r#"{"next":"7","step":"1","epoch":"2","state":"open"}"#);
        assert_eq!(Shared::decode(&text), Some(shared));
        for wrong in [
            "",
            "{}",
            r#"{"next":"07","step":"1","epoch":"2","state":"open"}"#,
            r#"{"next":"7","step":"0","epoch":"2","state":"open"}"#,
            r#"{"next":"7","step":"1","epoch":"2","state":"open" }"#,
            r#"{"next":"7","step":"1","epoch":"2","state":"shut"}"#,
            r#"{"next":"7","step":"1","epoch":"x","state":"open"}"#,
            r#"{"next":"99999999999999999999","step":"1","epoch":"2","state":"open"}"#,
        ] {
            assert!(Shared::decode(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn ranges_follow_each_other_to_the_end() {
        let (run, shared) =
            Shared { next: 995, ..NEW }.take(&STEPS, 4, Some(by_tickets(994))).unwrap();
        assert_eq!(run, Run { first: 995, count: 4 });
        let (run, shared) = shared.take(&STEPS, 4, None).unwrap();
        assert_eq!(run, Run { first: 999, count: 2 });
        assert_eq!(shared.take(&STEPS, 4, None), Err(NoRange::Ended));
        let other = Steps { step: 2, ..STEPS };
        assert_eq!(shared.take(&other, 4, None), Err(NoRange::OtherStep { step: 1 }));
    }

    #[test]
    fn the_largest_numbers_of_all_do_not_overflow() {
        let all = Steps { step: 1, min: 1, max: i64::MAX };
        let shared = Shared { next: i64::MAX - 2, ..NEW };
        let (run, shared) = shared.take(&all, 9, None).unwrap();
        assert_eq!(run, Run { first: i64::MAX - 2, count: 2 });
        assert_eq!(shared.take(&all, 9, None), Err(NoRange::Ended));
    }

    #[test]
    fn servers_take_ranges_of_one_ticket() {
        let mut keys = fleet();
        assert_eq!(take(&mut keys, &wanted(5, None)), Ok(Err(NoRange::NotShared)));
        let set_to = set(&mut keys, "t", 1, 3, None);
        assert_eq!(set_to, Ok(Ok(Set { next: 3, is_new: true })));
        let first = take(&mut keys, &wanted(5, Some(2)));
        assert_eq!(first, Ok(Ok(Range { run: Run { first: 3, count: 5 }, epoch: 0 })));
        let second = take(&mut keys, &wanted(5, None));
        assert_eq!(second, Ok(Ok(Range { run: Run { first: 8, count: 5 }, epoch: 0 })));
        // Never below what the registry says.
        let set_to = set(&mut keys, "t", 1, 3, Some(5));
        assert_eq!(set_to, Ok(Ok(Set { next: 13, is_new: false })));
        let stored = keys.value(ValueKind::Ticket, "t").unwrap().unwrap();
        assert_eq!(Shared::decode(&stored), Some(Shared { next: 13, epoch: 1, ..NEW }));
    }

    #[test]
    fn a_registry_that_went_back_gives_nothing_to_anybody_until_it_is_set() {
        let mut keys = fleet();
        set(&mut keys, "t", 1, 1, None).unwrap().unwrap();
        let behind = Ok(Err(NoRange::Behind { next: 1 }));
        assert_eq!(take(&mut keys, &wanted(5, Some(100))), behind);
        assert_eq!(take(&mut keys, &wanted(5, None)), behind);
        set(&mut keys, "t", 1, 1, Some(200)).unwrap().unwrap();
        let range = take(&mut keys, &wanted(5, Some(100)));
        assert_eq!(range, Ok(Ok(Range { run: Run { first: 201, count: 5 }, epoch: 1 })));
    }

    #[test]
    fn a_sequence_that_was_set_stops_nobody_else() {
        let mut keys = fleet();
        set(&mut keys, "t", 1, 1, None).unwrap().unwrap();
        let used = Some(Used { last: 100, by_tickets: false });
        let refused = take(&mut keys, &Wanted { used, ..wanted(5, None) });
        assert_eq!(refused, Ok(Err(NoRange::Behind { next: 1 })));
        let other = take(&mut keys, &wanted(5, None));
        assert_eq!(other, Ok(Ok(Range { run: Run { first: 1, count: 5 }, epoch: 0 })));
    }

    #[test]
    fn a_value_of_others_is_replaced_only_above_a_number() {
        let mut keys = fleet();
        keys.swap_value(ValueKind::Ticket, "t", None, "nonsense").unwrap().unwrap();
        assert_eq!(take(&mut keys, &wanted(5, None)), Ok(Err(NoRange::Damaged)));
        assert_eq!(set(&mut keys, "t", 1, 1, None), Ok(Err(NoRange::Damaged)));
        assert!(matches!(set(&mut keys, "t", 1, 1, Some(9)), Ok(Ok(Set { is_new: false, .. }))));
        let range = take(&mut keys, &wanted(5, None)).unwrap();
        assert!(matches!(range, Ok(Range { run: Run { first: 10, .. }, .. })));
    }

    #[test]
    fn a_beginning_keeps_the_step() {
        assert_eq!(beginning(3, 4, None, None), Some(3));
        assert_eq!(beginning(3, 4, Some(-9), None), Some(3));
        assert_eq!(beginning(3, 4, Some(3), None), Some(7));
        assert_eq!(beginning(3, 4, Some(6), None), Some(7));
        assert_eq!(beginning(3, 4, None, Some(Shared { next: 8, ..NEW })), Some(11));
        assert_eq!(beginning(1, 1, Some(i64::MAX), None), None);
    }

    #[test]
    fn names_are_told_apart() {
        assert_eq!(name(b"shop", b"public", b"invoice"), "shop/public.invoice");
        assert_ne!(name(b"a", b"b.c", b"d"), name(b"a", b"b", b"c.d"));
        assert_ne!(name(b"a/b", b"c", b"d"), name(b"a", b"b/c", b"d"));
        assert_eq!(name("ä".as_bytes(), b"b c", b"%"), "%C3%A4/b%20c.%25");
    }
}
