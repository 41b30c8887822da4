//! Which member of a fleet has a shard, and how it gets it: the values that the registry keeps for shards.
//!
//! A member that has a shard makes its IDs below the bound of the grant of its own number, so that no bound of a shard has
//! to be renewed. Its value names the server and that number. The server may open it, without a write, as long as it holds
//! just that number; with another one it has to ask for it as any other member does. That is safe because whoever takes a
//! shard looks at the grant of the number that its value names: nobody gets it while the server holds that number, and
//! where the grant has run out the server is *fenced*, by releasing the number in the same transaction.
//!
//! Each value has a tag, and the server keeps that of the last one whose write was acknowledged to it. Only a value with that
//! tag is one that it has: one whose answer was lost is written again, as if the shard was taken. So what was written is
//! known to the server before it relies on that, and a late request to give the shard back finds another value.
//!
//! A registry that was restored is told from one that was not by the member's own grant, which it renews every few seconds:
//! if that is as the member knows it when the shard's value is replaced, or after it was read, nothing was lost that was
//! older than its last renewal. Where the fleet was told of a restore, IDs of the shard begin above the floor.
//!
//! All that was judged is compared in the transaction that gives the shard to the member: the member's own grant, the shard's
//! value, the floor, the grant of who had it, and that no server was ever granted the number.

use serde::{Deserialize, Serialize};

use crate::fleet::grant::{Grant, GrantState, Holder, Number};
use crate::fleet::registry::Registry;
use crate::fleet::store::{Keys, KeysError, Other, OtherTexts, Store, floor_of, name_of};
use crate::fleet::text;
use crate::fleet::values::ValueKind;

/// The value of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardValue {
    /// Whether a member has it.
    pub held: bool,
    /// The datacenter ID of the server that has it or had it last, when it got it.
    pub datacenter: u32,
    /// The worker ID of that server, at that time.
    pub worker: u32,
    /// [`Holder::server_id`] of that server, in hexadecimal digits; empty in a value of a version that did not have them.
    #[serde(default)]
    pub server_id: String,
    /// Random for each write.
    pub tag: String,
    /// Whoever has the shard makes its IDs of this Unix millisecond or later; once it is given back, all IDs made of it are
    /// of an earlier one.
    pub above_ms: i64,
    /// For people: the machine.
    pub host: String,
    /// And the port.
    pub port: u16,
    /// The database cluster.
    pub system_identifier: String,
    /// What other versions of the product say. It stays as long as the value is about the same server.
    #[serde(flatten)]
    pub of_other_versions: serde_json::Map<String, serde_json::Value>,
}

impl ShardValue {
    /// Whether it is about this server.
    fn is_of(&self, holder: &Holder) -> bool {
        match self.server_id.as_str() {
            "" => self.system_identifier == holder.system_identifier.to_string(),
            server_id => server_id == hex(holder.server_id),
        }
    }

    /// The number of the member.
    pub const fn member(&self) -> Number {
        Number { datacenter: self.datacenter, worker: self.worker }
    }

    /// With the host and port that the server has now, by the grant of its number, which it renews: it may have moved, or be
    /// replaced by a copy, since it took the shard.
    fn located(self, grant: Option<&Grant>) -> ShardValue {
        match grant.filter(|grant| self.held && self.is_of(&grant.holder)) {
            Some(Grant { holder, .. }) => {
                ShardValue { host: holder.host.clone(), port: holder.port, ..self }
            }
            None => self,
        }
    }

    /// [`short`] of its tag; zero if that cannot be read.
    fn short_tag(&self) -> u32 {
        u128::from_str_radix(&self.tag, 16).map_or(0, short)
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// As much of a tag as a member keeps of the value that was acknowledged to it.
const fn short(tag: u128) -> u32 {
    tag as u32
}

/// A member that asks, as it knows itself.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its number.
    pub number: Number,
    /// The nonce of its acquisition.
    pub nonce: u128,
    /// The bound that was acknowledged last.
    pub until_ms: i64,
    /// Its first ID may be of this Unix millisecond.
    pub first_ms: i64,
    /// Who it is.
    pub holder: Holder,
}

/// Why it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An administrator gives it the shard.
    Take,
    /// The same, unless nobody ever had it, as far as the registry knows.
    TakeKnown,
    /// It had the shard when it acquired its number.
    Confirm,
}

/// The request of a member for a shard.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The reason that it asks.
    pub purpose: Purpose,
    /// The tag of the value that was acknowledged to the member last, as [`Outcome`] gave it; zero if the member does not have
    /// the shard, as far as it knows.
    pub acknowledged: u32,
    /// All IDs of the shard are to be of this Unix millisecond or later.
    pub above_ms: i64,
}

impl Wanted {
    /// A shard of the member's own list, as it was when it acquired its number.
    pub const fn confirmed(acknowledged: u32) -> Wanted {
        Wanted { purpose: Purpose::Confirm, acknowledged, above_ms: i64::MIN }
    }
}

/// The result of such a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has the shard, as it had before, and makes no ID of an earlier Unix millisecond.
    Has {
        /// Unix millisecond of its first ID, at the earliest.
        first_ms: i64,
        /// The tag of the registry's value, for [`Wanted::acknowledged`].
        tag: u32,
    },
    /// It has the shard from now on, and makes no ID of an earlier Unix millisecond. It waits for [`Terms::discovery_ms`] before
    /// it asks again and makes the first one: were the registry restored meanwhile, all that have a shard have said so by then.
    ///
    /// [`Terms::discovery_ms`]: crate::fleet::Terms::discovery_ms
    Taken {
        /// Unix millisecond of its first ID, at the earliest.
        first_ms: i64,
        /// The tag of the value, for [`Wanted::acknowledged`].
        tag: u32,
    },
    /// Another member has it.
    Elsewhere(Box<ShardValue>),
    /// The member took it with another number, whose grant has not run out.
    NotOver {
        /// That number's worker ID.
        worker: u32,
        /// Unix millisecond at which it will have run out, by the clock of any server.
        until_ms: i64,
    },
    /// Nobody ever had it, as far as the registry knows, and the member asks for one that was had.
    Unknown,
    /// The registry does not know the member as it knows itself.
    NotHolding,
    /// The number of the shard is one that the registry has granted to a member.
    Granted,
    /// Others wrote at the same time, again and again.
    Contended,
}

/// What came of lowering where IDs of a shard begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowered {
    /// They begin there now.
    Done {
        /// Unix millisecond at which they began before.
        before_ms: i64,
        /// Unix millisecond at which they begin now.
        above_ms: i64,
    },
    /// No server ever had the shard, as far as the registry knows.
    Unknown,
    /// Others wrote at the same time, again and again.
    Contended,
}

fn hex(bits: u128) -> String {
    format!("{bits:032x}")
}

fn decode(name: &str, text: &str) -> Result<ShardValue, KeysError> {
    serde_json::from_str(text)
        .map_err(|error| KeysError::Damaged { key: format!("s/{name}"), reason: error.to_string() })
}

/// All shards that the registry knows of; none in place of a value that can't be read.
///
/// # Errors
/// If it has no answer.
pub fn list<S: Store>(keys: &mut Keys<S>) -> Result<Vec<(Number, Option<ShardValue>)>, KeysError> {
    let mut shards = Vec::new();
    for (name, text) in keys.values(ValueKind::Shard)? {
        let number = name.split_once('/').and_then(|(datacenter, worker)| {
            Some(Number { datacenter: datacenter.parse().ok()?, worker: worker.parse().ok()? })
        });
        if let Some(number) = number {
            shards.push((number, decode(&name, &text).ok()));
        }
    }
    shards.sort_by_key(|(number, _)| *number);
    Ok(shards)
}

/// The same, with the host and port that the servers which have them have now.
///
/// # Errors
/// As for [`list`].
pub fn list_located<S: Store>(
    keys: &mut Keys<S>,
) -> Result<Vec<(Number, Option<ShardValue>)>, KeysError> {
    let grants = keys.list()?.grants;
    let located = |value: ShardValue| {
        let grant = grants.iter().find(|(number, _)| *number == value.member());
        value.located(grant.map(|(_, grant)| grant))
    };
    let shards = list(keys)?.into_iter();
    Ok(shards.map(|(number, value)| (number, value.map(located))).collect())
}

/// What a value says, if any server has the shard or had it.
fn value_of(name: &str, text: Option<&str>) -> Result<Option<ShardValue>, KeysError> {
    text.map(|text| decode(name, text)).transpose()
}

/// What the registry has of a member, if it knows the member as the member knows itself.
fn known<S: Store>(keys: &mut Keys<S>, member: &Member) -> Result<Option<Grant>, KeysError> {
    Ok(keys.grant(member.number)?.filter(|grant| {
        grant.nonce == member.nonce
            && grant.state == GrantState::Held
            && grant.until_ms >= member.until_ms
    }))
}

/// A shard that the registry says is a member's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Had {
    /// The number of the shard, with its datacenter.
    pub number: Number,
    /// Unix millisecond of its first ID, at the earliest.
    pub first_ms: i64,
    /// The tag of its value, for [`Wanted::acknowledged`].
    pub tag: u32,
}

/// All shards that a member has with the number that it has, in order. None of them where the registry does not know the member as it
/// knows itself.
///
/// # Errors
/// If the registry has no answer.
pub fn had<S: Store>(
    keys: &mut Keys<S>,
    member: &Member,
    now_ms: i64,
) -> Result<Vec<Had>, KeysError> {
    let values = list(keys)?;
    // Afterwards, as in [`take`].
    if known(keys, member)?.is_none() {
        return Ok(Vec::new());
    }
    let floor = keys.floor()?;
    let floor_ms = keys.meta().terms.believable_ms(floor_of(floor.as_deref()), now_ms);
    let had = |(number, value): (Number, Option<ShardValue>)| {
        let value = value.filter(|value| is_had(value, member))?;
        let first_ms = value.above_ms.max(member.first_ms).max(floor_ms);
        Some(Had { number, first_ms, tag: value.short_tag() })
    };
    Ok(values.into_iter().filter_map(had).collect())
}

/// Whether a shard is a member's, with the number that it has.
fn is_had(value: &ShardValue, member: &Member) -> bool {
    value.held && value.is_of(&member.holder) && value.member() == member.number
}

/// Gets a shard for a member; with a random tag for each try.
///
/// # Errors
/// If the registry has no answer; the member may have the shard nevertheless, and finds that when it asks again.
pub fn take<S: Store>(
    keys: &mut Keys<S>,
    shard: Number,
    member: &Member,
    Wanted { purpose, acknowledged, above_ms }: Wanted,
    now_ms: i64,
    tags: &[u128],
) -> Result<Outcome, KeysError> {
    let name = name_of(shard);
    for &tag in tags {
        let old = keys.value(ValueKind::Shard, &name)?;
        // Afterwards: whoever has taken the shard from this server has fenced it.
        let Some(own) = known(keys, member)? else { return Ok(Outcome::NotHolding) };
        let value = value_of(&name, old.as_deref())?;
        if purpose != Purpose::Take && value.is_none() {
            // A member had it in another fleet, or the registry went back in time: others may have it.
            return Ok(Outcome::Unknown);
        }
        let floor = keys.floor()?;
        let floor_ms = keys.meta().terms.believable_ms(floor_of(floor.as_deref()), now_ms);
        let has = |value: &&ShardValue| {
            acknowledged != 0 && value.short_tag() == acknowledged && is_had(value, member)
        };
        let had = value.as_ref().filter(has);
        let is_had = had.is_some();
        if let Some(value) = had.filter(|value| value.above_ms >= above_ms) {
            // Above all that an earlier process made with the number.
            let first_ms = value.above_ms.max(member.first_ms).max(floor_ms);
            return Ok(Outcome::Has { first_ms, tag: acknowledged });
        }
        if keys.read(shard)?.is_some() {
            return Ok(Outcome::Granted);
        }
        let (first_ms, owner) = match end_of_others(keys, member, purpose, value, now_ms)? {
            Ended::Below { first_ms, owner } => (first_ms, owner),
            Ended::Not(value) => {
                let grant = keys.grant(value.member())?;
                return Ok(Outcome::Elsewhere(value.located(grant.as_ref()).into()));
            }
            Ended::NotOver { worker, until_ms } => {
                return Ok(Outcome::NotOver { worker, until_ms });
            }
        };
        let first_ms = first_ms.max(floor_ms).max(above_ms);
        let new = ShardValue {
            held: true,
            datacenter: member.number.datacenter,
            worker: member.number.worker,
            server_id: hex(member.holder.server_id),
            tag: hex(tag),
            above_ms: first_ms,
            host: member.holder.host.clone(),
            port: member.holder.port,
            system_identifier: member.holder.system_identifier.to_string(),
            of_other_versions: serde_json::Map::new(),
        };
        let own_text = text::encode_grant(&own);
        let own = (keys.number_key(member.number), Some(own_text), None);
        let judged = [own, (keys.floor_key(), floor, None), (keys.number_key(shard), None, None)]
            .into_iter()
            .chain(owner.map(|owner| owner.compared(keys, tag)));
        let judged: Vec<_> = judged.collect();
        let others: Vec<_> = judged.iter().map(Other::of).collect();
        let key = keys.value_key(ValueKind::Shard, &name);
        if keys.swap_in_fleet(&key, old.as_deref(), &new.text(), &others)?.is_ok() {
            let tag = short(tag);
            return Ok(match is_had {
                true => Outcome::Has { first_ms, tag },
                false => Outcome::Taken { first_ms, tag },
            });
        }
    }
    Ok(Outcome::Contended)
}

/// Whether others may still make IDs of a shard.
enum Ended {
    /// Not once the shard is had: all that they made are of an earlier Unix millisecond.
    Below {
        /// Unix millisecond that they are before.
        first_ms: i64,
        /// The grant that says so, if any.
        owner: Option<Owner>,
    },
    /// One of them has it.
    Not(Box<ShardValue>),
    /// The member itself may, with another number.
    NotOver {
        /// That number's worker ID.
        worker: u32,
        /// Unix millisecond until which it may, by the clock of any server.
        until_ms: i64,
    },
}

/// The grant of a number whose holder had a shard, as it was judged.
struct Owner {
    number: Number,
    grant: Option<Grant>,
    /// Whether the holder could renew it: it may only be paused.
    is_fenced: bool,
}

impl Owner {
    /// Its key, what it has to be, and what it is afterwards.
    fn compared<S: Store>(self, keys: &Keys<S>, tag: u128) -> OtherTexts {
        let expected = self.grant.as_ref().map(text::encode_grant);
        let fenced = self.grant.filter(|_| self.is_fenced);
        let fenced = fenced.map(|grant| Grant { state: GrantState::Released, tag, ..grant });
        (keys.number_key(self.number), expected, fenced.as_ref().map(text::encode_grant))
    }
}

/// Finds whether anybody else may make IDs of a shard, once the member has it.
fn end_of_others<S: Store>(
    keys: &mut Keys<S>,
    member: &Member,
    purpose: Purpose,
    value: Option<ShardValue>,
    now_ms: i64,
) -> Result<Ended, KeysError> {
    let below = |first_ms| Ok(Ended::Below { first_ms, owner: None });
    let Some(value) = value else { return below(i64::MIN) };
    if purpose == Purpose::Confirm && !(value.held && value.is_of(&member.holder)) {
        return Ok(Ended::Not(value.into()));
    }
    if !value.held {
        return below(value.above_ms);
    }
    let number = value.member();
    if number == member.number {
        // An acquisition begins above all that an earlier one could make.
        return below(value.above_ms.max(member.first_ms));
    }
    let terms = keys.meta().terms;
    let Some(grant) = keys.grant(number)? else {
        // The registry has forgotten how far it could go.
        let forgotten_ms = now_ms.saturating_add(terms.forgotten_ms());
        let owner = Owner { number, grant: None, is_fenced: false };
        let first_ms = value.above_ms.max(forgotten_ms);
        return Ok(Ended::Below { first_ms, owner: Some(owner) });
    };
    let difference_ms = i64::from(terms.clock_difference_ms);
    let until_ms = grant.until_ms.saturating_add(difference_ms);
    let is_over = until_ms < now_ms;
    let may_go_on = grant.state == GrantState::Held && value.is_of(&grant.holder);
    if may_go_on && !is_over {
        return Ok(match value.is_of(&member.holder) {
            true => Ended::NotOver { worker: number.worker, until_ms },
            false => Ended::Not(value.into()),
        });
    }
    let first_ms = value.above_ms.max(grant.until_ms);
    let owner = Owner { number, grant: Some(grant), is_fenced: may_go_on };
    Ok(Ended::Below { first_ms, owner: Some(owner) })
}

/// Lowers where IDs of a shard begin, if that lies further ahead than any server with a right clock puts it, to the furthest
/// that one does; with a random tag for each try.
///
/// # Errors
/// If the registry has no answer; the time may be lowered nevertheless.
pub fn lower<S: Store>(
    keys: &mut Keys<S>,
    shard: Number,
    now_ms: i64,
    tags: &[u128],
) -> Result<Lowered, KeysError> {
    let name = name_of(shard);
    let mut old = keys.value(ValueKind::Shard, &name)?;
    for &tag in tags {
        let Some(value) = value_of(&name, old.as_deref())? else { return Ok(Lowered::Unknown) };
        let before_ms = value.above_ms;
        let above_ms = keys.meta().terms.believable_ms(before_ms, now_ms);
        let new = ShardValue { tag: hex(tag), above_ms, ..value };
        if above_ms == before_ms {
            return Ok(Lowered::Done { before_ms, above_ms });
        }
        match keys.swap_value(ValueKind::Shard, &name, old.as_deref(), &new.text())? {
            Ok(()) => return Ok(Lowered::Done { before_ms, above_ms }),
            Err(found) => old = found,
        }
    }
    Ok(Lowered::Contended)
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// The member had it, and has it no more.
    Done,
    /// The member did not have it.
    NotHad,
    /// The registry does not know the member as it knows itself.
    NotHolding,
    /// As [`Outcome::NotOver`].
    NotOver {
        /// That number's worker ID.
        worker: u32,
        /// Unix millisecond at which it will have run out, by the clock of any server.
        until_ms: i64,
    },
}

/// Gives back a shard, of which the member made no ID of this Unix millisecond or later.
///
/// # Errors
/// If the registry has no answer; the shard may be given back nevertheless.
pub fn release<S: Store>(
    keys: &mut Keys<S>,
    shard: Number,
    member: &Member,
    above_ms: i64,
    now_ms: i64,
    tags: &[u128],
) -> Result<Returned, KeysError> {
    let name = name_of(shard);
    for &tag in tags {
        let Some(old) = keys.value(ValueKind::Shard, &name)? else { return Ok(Returned::NotHad) };
        let Some(value) = value_of(&name, Some(&old))?.filter(|value| value.held) else {
            return Ok(Returned::NotHad);
        };
        if !value.is_of(&member.holder) || value.member() != member.number {
            // Of another number, or another's: that has to be over first.
            match take(keys, shard, member, Wanted::confirmed(0), now_ms, &[tag])? {
                Outcome::Has { .. } | Outcome::Taken { .. } | Outcome::Contended => continue,
                Outcome::NotOver { worker, until_ms } => {
                    return Ok(Returned::NotOver { worker, until_ms });
                }
                Outcome::NotHolding => return Ok(Returned::NotHolding),
                Outcome::Elsewhere(_) | Outcome::Unknown | Outcome::Granted => {
                    return Ok(Returned::NotHad);
                }
            }
        }
        // An earlier process may have made more than this one knows.
        let above_ms = value.above_ms.max(member.first_ms).max(above_ms);
        let new = ShardValue { held: false, tag: hex(tag), above_ms, ..value };
        if keys.swap_value(ValueKind::Shard, &name, Some(&old), &new.text())?.is_ok() {
            return Ok(Returned::Done);
        }
    }
    Ok(Returned::NotHad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::grant::Terms;
    use crate::fleet::store::tests::{Double, fleet};
    use crate::fleet::store::{StoreError, Swap, Swapped};

    const SHARD: Number = Number { datacenter: 0, worker: 500 };
    const TAGS: [u128; 3] = [101, 102, 103];
    /// A shard that nobody has acknowledged to the member yet.
    const TAKE: Wanted = Wanted { purpose: Purpose::Take, acknowledged: 0, above_ms: i64::MIN };

    fn member(worker: u32, nonce: u128) -> Member {
        let (server_id, system_identifier) = (worker.into(), worker.into());
        let holder = Holder { server_id, system_identifier, port: 5432, ..Holder::default() };
        let number = Number { datacenter: 0, worker };
        Member { number, nonce, until_ms: 30_000, first_ms: 10_000, holder }
    }

    /// Grants a member its number.
    fn grant(keys: &mut Keys<Double>, member: &Member) {
        let old = keys.grant(member.number).unwrap();
        keys.swap(member.number, old.as_ref(), &acquisition(member)).unwrap().unwrap();
    }

    fn ask(keys: &mut Keys<Double>, member: &Member, purpose: Purpose, now_ms: i64) -> Outcome {
        let wanted = Wanted { purpose, ..acknowledged(keys) };
        let asked = take(keys, SHARD, member, wanted, now_ms, &TAGS);
        without_tag(asked.unwrap())
    }

    /// What a member asks for to which the value was acknowledged that the registry has.
    fn acknowledged(keys: &mut Keys<Double>) -> Wanted {
        let text = keys.value(ValueKind::Shard, "0/500").unwrap();
        let value = text.and_then(|text| decode("0/500", &text).ok());
        Wanted::confirmed(value.map_or(0, |value| value.short_tag()))
    }

    fn without_tag(outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Has { first_ms, .. } => Outcome::Has { first_ms, tag: 0 },
            Outcome::Taken { first_ms, .. } => Outcome::Taken { first_ms, tag: 0 },
            other => other,
        }
    }

    fn give_back(
        keys: &mut Keys<Double>,
        member: &Member,
        above_ms: i64,
    ) -> Result<Returned, KeysError> {
        release(keys, SHARD, member, above_ms, 20_000, &TAGS)
    }

    #[test]
    fn a_shard_goes_from_one_member_to_the_other_above_all_that_was_made() {
        let (mut keys, one, two) = (fleet(), member(1, 11), member(2, 22));
        grant(&mut keys, &one);
        grant(&mut keys, &two);
        let first = Outcome::Taken { first_ms: i64::MIN, tag: 0 };
        assert_eq!(ask(&mut keys, &one, Purpose::Take, 20_000), first);
        let again = Outcome::Has { first_ms: one.first_ms, tag: 0 };
        assert_eq!(ask(&mut keys, &one, Purpose::Take, 20_000), again);
        assert!(matches!(ask(&mut keys, &two, Purpose::Take, 20_000), Outcome::Elsewhere(_)));
        assert_eq!(give_back(&mut keys, &two, 1), Ok(Returned::NotHad), "not its own");
        let mut standby = two.clone();
        standby.holder.system_identifier = one.holder.system_identifier;
        assert_eq!(
            give_back(&mut keys, &standby, 1),
            Ok(Returned::NotHad),
            "not its standby's either"
        );
        assert_eq!(give_back(&mut keys, &one, 25_000), Ok(Returned::Done));
        assert_eq!(give_back(&mut keys, &one, 25_000), Ok(Returned::NotHad), "twice");
        assert!(matches!(ask(&mut keys, &one, Purpose::Confirm, 20_000), Outcome::Elsewhere(_)));
        let second = Outcome::Taken { first_ms: 25_000, tag: 0 };
        assert_eq!(ask(&mut keys, &two, Purpose::Take, 20_000), second);
    }

    #[test]
    fn a_shard_that_begins_years_ahead_is_lowered() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        assert_eq!(lower(&mut keys, SHARD, 20_000, &TAGS), Ok(Lowered::Unknown));
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let years_ms = 100_000_000_000;
        assert_eq!(give_back(&mut keys, &one, years_ms), Ok(Returned::Done));
        assert_eq!(lower(&mut keys, SHARD, 20_000, &[]), Ok(Lowered::Contended));
        let above_ms = Terms::DEFAULT.believable_ms(years_ms, 20_000);
        let lowered = Lowered::Done { before_ms: years_ms, above_ms };
        assert_eq!(lower(&mut keys, SHARD, 20_000, &TAGS), Ok(lowered));
        let unchanged = Lowered::Done { before_ms: above_ms, above_ms };
        assert_eq!(lower(&mut keys, SHARD, 20_000, &TAGS), Ok(unchanged));
        let first = Outcome::Taken { first_ms: above_ms, tag: 0 };
        assert_eq!(ask(&mut keys, &one, Purpose::Take, 20_000), first);
    }

    #[test]
    fn a_member_whose_grant_ran_out_is_fenced_before_its_shard_is_taken() {
        let (mut keys, one, mut two) = (fleet(), member(1, 11), member(2, 22));
        grant(&mut keys, &one);
        two.until_ms = 90_000;
        grant(&mut keys, &two);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        assert!(matches!(ask(&mut keys, &two, Purpose::Take, 32_999), Outcome::Elsewhere(_)));
        assert_eq!(
            ask(&mut keys, &two, Purpose::Take, 40_000),
            Outcome::Taken { first_ms: 30_000, tag: 0 },
            "above the bound that it could go to"
        );
        let fenced = keys.grant(one.number).unwrap().unwrap();
        assert_eq!((fenced.state, fenced.until_ms), (GrantState::Released, 30_000));
        assert_eq!(ask(&mut keys, &one, Purpose::Confirm, 40_000), Outcome::NotHolding);
    }

    #[test]
    fn a_shard_stays_with_a_server_that_acquires_its_number_again_or_another() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let again = Member { nonce: 12, until_ms: 60_000, first_ms: 30_000, ..one.clone() };
        grant(&mut keys, &again);
        assert_eq!(ask(&mut keys, &one, Purpose::Confirm, 40_000), Outcome::NotHolding);
        let confirmed = Outcome::Has { first_ms: 30_000, tag: 0 };
        let written = keys.value(ValueKind::Shard, "0/500").unwrap();
        assert_eq!(ask(&mut keys, &again, Purpose::Confirm, 40_000), confirmed);
        assert_eq!(keys.value(ValueKind::Shard, "0/500").unwrap(), written, "no write");
        let later = Member { nonce: 14, until_ms: 90_000, first_ms: 60_000, ..one.clone() };
        grant(&mut keys, &later);
        assert_eq!(
            give_back(&mut keys, &later, 1),
            Ok(Returned::Done),
            "of an earlier acquisition"
        );
        let back = Outcome::Taken { first_ms: 60_000, tag: 0 };
        assert_eq!(ask(&mut keys, &later, Purpose::Take, 40_000), back, "above that");
        let again = Member { until_ms: 90_000, ..again };
        // With another number: above the bound of the one that it had.
        let other = Member { number: Number { datacenter: 0, worker: 3 }, nonce: 13, ..again };
        grant(&mut keys, &other);
        let mut released = keys.grant(one.number).unwrap().unwrap();
        let held = released.clone();
        (released.state, released.tag) = (GrantState::Released, 99);
        keys.swap(one.number, Some(&held), &released).unwrap().unwrap();
        assert_eq!(
            ask(&mut keys, &other, Purpose::Confirm, 40_000),
            Outcome::Taken { first_ms: 90_000, tag: 0 }
        );
    }

    #[test]
    fn a_registry_that_went_back_in_time_gives_no_shard() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        let renewed = Member { until_ms: 40_000, ..one.clone() };
        assert_eq!(ask(&mut keys, &renewed, Purpose::Take, 20_000), Outcome::NotHolding);
        keys.raise_floor(77_000).unwrap();
        assert_eq!(
            ask(&mut keys, &one, Purpose::Take, 20_000),
            Outcome::Taken { first_ms: 77_000, tag: 0 }
        );
        assert_eq!(list(&mut keys).unwrap().len(), 1);
    }

    #[test]
    fn a_floor_of_a_wrong_clock_does_not_end_a_shard() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        keys.raise_floor(i64::MAX).unwrap();
        let believable = 20_000 + Terms::DEFAULT.forgotten_ms() + 3_000;
        let taken = Outcome::Taken { first_ms: believable, tag: 0 };
        assert_eq!(ask(&mut keys, &one, Purpose::Take, 20_000), taken);
    }

    #[test]
    fn a_former_owner_of_the_same_cluster_does_not_get_a_shard_back_by_a_call() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let promoted = Member { until_ms: 90_000, ..member(2, 22) };
        grant(&mut keys, &promoted);
        ask(&mut keys, &promoted, Purpose::Take, 40_000);
        let held = keys.grant(promoted.number).unwrap().unwrap();
        let released = Grant { state: GrantState::Released, tag: 99, ..held.clone() };
        keys.swap(promoted.number, Some(&held), &released).unwrap().unwrap();
        // With a number of its own, and with that of the one that has the shard.
        for number in [3, 2] {
            let again =
                Member { until_ms: 99_000, holder: one.holder.clone(), ..member(number, 33) };
            grant(&mut keys, &again);
            let outcome = ask(&mut keys, &again, Purpose::Confirm, 41_000);
            assert!(matches!(outcome, Outcome::Elsewhere(_)), "{outcome:?}");
        }
    }

    #[test]
    fn a_shard_is_not_taken_from_a_server_that_acquired_its_number_again() {
        let (mut keys, one, two) = (fleet(), member(1, 11), member(2, 22));
        let two = Member { until_ms: 90_000, ..two };
        grant(&mut keys, &one);
        grant(&mut keys, &two);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let mut again = Member { nonce: 12, until_ms: 60_000, ..one.clone() };
        again.holder.host = "renamed".to_owned();
        grant(&mut keys, &again);
        assert!(matches!(ask(&mut keys, &two, Purpose::Take, 40_000), Outcome::Elsewhere(_)));
        // Of another server with that number the shard is not.
        let held = keys.grant(one.number).unwrap().unwrap();
        let other = Grant {
            nonce: 77,
            tag: 77,
            until_ms: 70_000,
            holder: member(7, 77).holder,
            ..held.clone()
        };
        keys.swap(one.number, Some(&held), &other).unwrap().unwrap();
        let above = Outcome::Taken { first_ms: 70_000, tag: 0 };
        assert_eq!(ask(&mut keys, &two, Purpose::Take, 40_000), above);
        assert_eq!(keys.grant(one.number).unwrap(), Some(other), "nobody is fenced");
    }

    #[test]
    fn a_late_request_to_give_a_shard_back_changes_nothing_once_it_was_taken_again() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let late = keys.value(ValueKind::Shard, "0/500").unwrap();
        // The member does not have it any more.
        let taken = take(&mut keys, SHARD, &one, TAKE, 20_000, &[77]);
        assert_eq!(taken, Ok(Outcome::Taken { first_ms: one.first_ms, tag: 77 }));
        let swapped = keys.swap_value(ValueKind::Shard, "0/500", late.as_deref(), "{}").unwrap();
        assert!(swapped.is_err());
    }

    #[test]
    fn a_value_whose_answer_was_lost_is_no_shard_of_the_member_before_it_is_written_again() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let known = acknowledged(&mut keys);
        let has = Outcome::Has { first_ms: one.first_ms, tag: known.acknowledged };
        let ask =
            |keys: &mut Keys<Double>, wanted, tag| take(keys, SHARD, &one, wanted, 20_000, &[tag]);
        assert_eq!(ask(&mut keys, known, 1), Ok(has));
        // The answer to this one is lost.
        let raised = ask(&mut keys, Wanted { above_ms: 25_000, ..known }, 78);
        assert_eq!(raised, Ok(Outcome::Has { first_ms: 25_000, tag: 78 }));
        let taken = Outcome::Taken { first_ms: 25_000, tag: 79 };
        assert_eq!(ask(&mut keys, known, 79), Ok(taken));
        assert_eq!(
            ask(&mut keys, Wanted::confirmed(79), 1),
            Ok(Outcome::Has { first_ms: 25_000, tag: 79 })
        );
    }

    #[test]
    fn what_a_shard_is_taken_above_is_in_the_registry() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let above = Wanted { above_ms: 25_000, ..acknowledged(&mut keys) };
        let has = Outcome::Has { first_ms: 25_000, tag: 0 };
        let raised = take(&mut keys, SHARD, &one, above, 20_000, &[77]);
        assert_eq!(raised, Ok(Outcome::Has { first_ms: 25_000, tag: 77 }));
        assert_eq!(ask(&mut keys, &one, Purpose::Take, 20_000), has, "without it once more");
        assert_eq!(ask(&mut keys, &one, Purpose::Confirm, 20_000), has);
    }

    #[test]
    fn a_server_whose_former_number_is_still_granted_waits_for_that() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let other =
            Member { number: Number { datacenter: 0, worker: 3 }, nonce: 13, ..one.clone() };
        grant(&mut keys, &other);
        let not_over = Outcome::NotOver { worker: 1, until_ms: 33_000 };
        assert_eq!(ask(&mut keys, &other, Purpose::Confirm, 33_000), not_over);
        let returned = Returned::NotOver { worker: 1, until_ms: 33_000 };
        assert_eq!(give_back(&mut keys, &other, 1), Ok(returned));
    }

    #[test]
    fn values_of_other_versions_are_read_and_what_they_say_stays() {
        let (mut keys, one, two) = (fleet(), member(1, 11), member(2, 22));
        let two = Member { until_ms: 90_000, ..two };
        grant(&mut keys, &one);
        grant(&mut keys, &two);
        let old = r#"{"held":true,"datacenter":0,"worker":1,"nonce":"0b","tag":"65","above_ms":5,"host":"","port":5432,"system_identifier":"1"}"#;
        keys.swap_value(ValueKind::Shard, "0/500", None, old).unwrap().unwrap();
        assert!(matches!(ask(&mut keys, &two, Purpose::Take, 20_000), Outcome::Elsewhere(_)));
        let has = Outcome::Has { first_ms: one.first_ms, tag: 0 };
        assert_eq!(ask(&mut keys, &one, Purpose::Confirm, 20_000), has);
        assert_eq!(give_back(&mut keys, &one, 25_000), Ok(Returned::Done));
        let text = keys.value(ValueKind::Shard, "0/500").unwrap().unwrap();
        assert!(text.contains(r#""nonce":"0b""#), "{text}");
        assert_eq!(
            ask(&mut keys, &two, Purpose::Take, 20_000),
            Outcome::Taken { first_ms: 25_000, tag: 0 }
        );
    }

    #[test]
    fn a_shard_that_the_registry_never_heard_of_is_not_confirmed() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        assert_eq!(ask(&mut keys, &one, Purpose::Confirm, 20_000), Outcome::Unknown);
        assert_eq!(list(&mut keys).unwrap(), []);
    }

    #[test]
    fn a_number_that_a_member_had_is_no_shard() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        grant(&mut keys, &member(500, 55));
        assert_eq!(ask(&mut keys, &one, Purpose::Take, 20_000), Outcome::Granted);
    }

    #[test]
    fn a_shard_is_no_number_for_a_member_while_it_is_had_and_afterwards() {
        let (mut keys, one) = (fleet(), member(1, 11));
        grant(&mut keys, &one);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        assert_eq!(keys.list().unwrap().shards, [SHARD]);
        assert_eq!(give_back(&mut keys, &one, 25_000), Ok(Returned::Done));
        assert_eq!(keys.list().unwrap().shards, [SHARD]);
    }

    /// The grant that a server asks for.
    fn acquisition(member: &Member) -> Grant {
        Grant {
            nonce: member.nonce,
            tag: member.nonce,
            until_ms: member.until_ms,
            state: GrantState::Held,
            predecessor: None,
            watches_since_ms: None,
            holder: member.holder.clone(),
        }
    }

    #[test]
    fn a_member_that_chose_before_a_shard_was_taken_does_not_get_the_number() {
        let (mut keys, one, late) = (fleet(), member(1, 11), member(SHARD.worker, 55));
        grant(&mut keys, &one);
        // It has a listing without the shard.
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let found = keys.swap(SHARD, None, &acquisition(&late)).unwrap().unwrap_err();
        assert_eq!(found, Some(Grant::unreadable()));
        assert_eq!(keys.grant(SHARD).unwrap(), None);
        let again = Outcome::Has { first_ms: one.first_ms, tag: 0 };
        assert_eq!(ask(&mut keys, &one, Purpose::Confirm, 20_000), again);
    }

    /// A store in which something happens just before a shard's value is swapped.
    struct Rival<F>(Double, Option<F>);

    impl<F: FnOnce(&mut Double)> Store for Rival<F> {
        fn identity(&mut self) -> Result<String, StoreError> {
            self.0.identity()
        }

        fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
            self.0.list(prefix)
        }

        fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
            self.0.get(key)
        }

        fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
            if let Some(act) = self.1.take_if(|_| swap.key.contains("/s/")) {
                act(&mut self.0);
            }
            self.0.swap(swap)
        }
    }

    /// What comes of a take if something happens at the worst moment, and what the registry has then.
    fn taken_beside(
        keys: Keys<Double>,
        act: impl FnOnce(&mut Double),
        two: &Member,
    ) -> (Outcome, Keys<Double>) {
        let Ok(mut keys) = Keys::open(Rival(keys.store, Some(act)), "f") else { panic!() };
        let taken = take(&mut keys, SHARD, two, TAKE, 40_000, &TAGS).unwrap();
        (taken, Keys::open(keys.store.0, "f").unwrap())
    }

    #[test]
    fn a_shard_whose_number_a_server_acquires_meanwhile_is_not_had_and_leaves_nothing() {
        let (mut keys, one) = (fleet(), Member { until_ms: 90_000, ..member(1, 11) });
        grant(&mut keys, &one);
        let number = text::encode_grant(&acquisition(&member(SHARD.worker, 55)));
        let act = |store: &mut Double| drop(store.0.insert("/id_gen/f/n/0/500".to_owned(), number));
        let (taken, mut keys) = taken_beside(keys, act, &one);
        assert_eq!(taken, Outcome::Granted);
        assert_eq!(list(&mut keys), Ok(vec![]));
        assert_eq!(release(&mut keys, SHARD, &one, 1, 40_000, &TAGS), Ok(Returned::NotHad));
    }

    #[test]
    fn what_was_judged_is_compared_where_the_shard_is_had() {
        let (mut keys, one) = (fleet(), member(1, 11));
        let two = Member { until_ms: 90_000, ..member(2, 22) };
        grant(&mut keys, &one);
        grant(&mut keys, &two);
        ask(&mut keys, &one, Purpose::Take, 20_000);
        let store = |keys: &Keys<Double>| Double(keys.store.0.clone());
        let open = |keys: &Keys<Double>| Keys::open(store(keys), "f").unwrap();

        // The owner renews although its grant had run out.
        let renewed = text::encode_grant(&Grant { tag: 77, until_ms: 70_000, ..acquisition(&one) });
        let act = |store: &mut Double| drop(store.0.insert("/id_gen/f/n/0/1".to_owned(), renewed));
        let (taken, mut after) = taken_beside(open(&keys), act, &two);
        assert!(matches!(taken, Outcome::Elsewhere(_)), "{taken:?}");
        assert_eq!(after.grant(one.number).unwrap().unwrap().state, GrantState::Held);

        // The taker is fenced.
        let fenced = Grant { state: GrantState::Released, tag: 78, ..acquisition(&two) };
        let fenced = text::encode_grant(&fenced);
        let act = |store: &mut Double| drop(store.0.insert("/id_gen/f/n/0/2".to_owned(), fenced));
        let (taken, mut after) = taken_beside(open(&keys), act, &two);
        assert_eq!(taken, Outcome::NotHolding);
        assert_eq!(after.grant(one.number).unwrap().unwrap().state, GrantState::Held);

        // Somebody tells the fleet of a restore.
        let act =
            |store: &mut Double| drop(store.0.insert("/id_gen/f/floor".to_owned(), "50000".into()));
        let (taken, mut after) = taken_beside(open(&keys), act, &two);
        assert_eq!(taken, Outcome::Taken { first_ms: 50_000, tag: 102 });
        assert_eq!(after.grant(one.number).unwrap().unwrap().state, GrantState::Released);
    }

    #[test]
    fn a_value_that_cannot_be_read_is_told_and_hides_no_other() {
        let mut keys = fleet();
        keys.swap_value(ValueKind::Shard, "0/500", None, "x").unwrap().unwrap();
        assert_eq!(list(&mut keys), Ok(vec![(SHARD, None)]));
        let one = member(1, 11);
        grant(&mut keys, &one);
        let taken = take(&mut keys, SHARD, &one, TAKE, 20_000, &TAGS);
        assert!(matches!(taken, Err(KeysError::Damaged { .. })), "it is not free");
        let other = Number { worker: 501, ..SHARD };
        let taken = take(&mut keys, other, &one, TAKE, 20_000, &TAGS);
        assert!(matches!(taken, Ok(Outcome::Taken { .. })));
    }
}
