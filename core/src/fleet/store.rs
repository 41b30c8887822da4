//! What a registry is made of: a store of texts by key, which can compare and swap. [`Keys`] keeps a fleet in it.
//!
//! | key | value |
//! | --- | --- |
//! | `/id_gen/<fleet>/meta` | the fleet ([`Meta`]), written by an administrator's command |
//! | `/id_gen/<fleet>/floor` | [`Listing::floor_ms`] |
//! | `/id_gen/<fleet>/n/<datacenter>/<worker>` | a [`Grant`] |
//! | `/id_gen/<fleet>/s/…`, `/t/…` | what else a fleet shares ([`values`](crate::fleet::values)) |
//!
//! Every write of a grant takes place only if the fleet is still the one that the server knows, so a fleet that was
//! wiped or made anew gives no number to a server that has not read its terms.
//!
//! No number is both a server's and a shard's: whoever acquires a number writes its grant only if there is no shard of it, in
//! the same transaction, and whoever takes a shard writes its value only if there is no grant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fleet::grant::{Grant, Number, Terms};
use crate::fleet::meta::Meta;
use crate::fleet::registry::{Listing, Registry};
use crate::fleet::text;
use crate::planted::Fault;

/// A store of texts by key. Every operation is atomic and linearizable: it sees all that was acknowledged before.
pub trait Store {
    /// Looks whether all servers that the setting names belong to one store.
    ///
    /// # Errors
    /// [`StoreErrorKind::OtherCluster`] if they do not, as far as they answer.
    fn check(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes what the store needs before it can keep anything, unless it is there.
    ///
    /// # Errors
    /// As for [`Store::list`].
    fn prepare(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// What endangers the store, as far as it can tell; `None` if nothing is known of it.
    ///
    /// # Errors
    /// As for [`Store::list`].
    fn weakness(&mut self) -> Result<Option<Weakness>, StoreError> {
        Ok(None)
    }

    /// The registry that has answered last ([`Store::identity`]), and how far its history had come, for others to compare with;
    /// `None` if it keeps none.
    fn seen(&self) -> Option<(String, i64)> {
        None
    }

    /// Refuses from here on what comes from before these positions, by [`Store::identity`]: others have [`Store::seen`] them
    /// already.
    fn follow(&mut self, _seen: BTreeMap<String, i64>) {}

    /// Which store this is: a name that no other one has, however much its keys are the same. A copy has another, unless it
    /// is started as the same cluster of etcd.
    ///
    /// # Errors
    /// As for [`Store::list`].
    fn identity(&mut self) -> Result<String, StoreError>;

    /// All keys with this prefix and their values, in order, as of one moment.
    ///
    /// # Errors
    /// If no answer came, or none that can be relied on.
    fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError>;

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// As for [`Store::list`].
    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError>;

    /// Compares and swaps.
    ///
    /// # Errors
    /// As for [`Store::list`]. The swap may have taken place nevertheless, or do so later.
    fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError>;
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn check(&mut self) -> Result<(), StoreError> {
        (**self).check()
    }

    fn prepare(&mut self) -> Result<(), StoreError> {
        (**self).prepare()
    }

    fn weakness(&mut self) -> Result<Option<Weakness>, StoreError> {
        (**self).weakness()
    }

    fn seen(&self) -> Option<(String, i64)> {
        (**self).seen()
    }

    fn follow(&mut self, seen: BTreeMap<String, i64>) {
        (**self).follow(seen);
    }

    fn identity(&mut self) -> Result<String, StoreError> {
        (**self).identity()
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        (**self).list(prefix)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
        (**self).get(key)
    }

    fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
        (**self).swap(swap)
    }
}

/// Gives a key a new value if it has the expected one, and all the other keys have theirs. Some of those get a new value with
/// it: all or none, and whoever reads sees all or none.
#[derive(Clone, Copy, Debug)]
pub struct Swap<'a> {
    /// The key.
    pub key: &'a str,
    /// What it is expected to be, in all bytes; `None` if there is none.
    pub expected: Option<&'a str>,
    /// Its new value.
    pub new: &'a str,
    /// The other keys, each once.
    pub others: &'a [Other<'a>],
}

impl<'a> Swap<'a> {
    /// All its keys, its own first.
    pub fn keys(&self) -> impl Iterator<Item = Other<'a>> + use<'a> {
        let own = Other { key: self.key, expected: self.expected, new: Some(self.new) };
        [own].into_iter().chain(self.others.iter().copied())
    }
}

/// Another key of a [`Swap`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Other<'a> {
    /// The name of the key.
    pub key: &'a str,
    /// The value that it has to have, in all bytes; `None` if there must be none.
    pub expected: Option<&'a str>,
    /// Its new value; `None` if it stays as it is.
    pub new: Option<&'a str>,
}

/// The texts of an [`Other`]: its key, the expected value, and the new one.
pub type OtherTexts = (String, Option<String>, Option<String>);

impl Other<'_> {
    /// One that borrows its texts.
    pub fn of((key, expected, new): &OtherTexts) -> Other<'_> {
        Other { key, expected: expected.as_deref(), new: new.as_deref() }
    }
}

/// What came of a swap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Swapped {
    /// It took place.
    Done,
    /// It did not: the value is another one.
    Differs {
        /// The value of the key.
        found: Option<String>,
    },
    /// It did not: the value of another key is not what it has to be.
    Forbidden {
        /// The first of those, by its place among [`Swap::others`].
        other: usize,
    },
}

/// What endangers a store that works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weakness {
    /// What kind of danger it is.
    pub kind: WeaknessKind,
    /// The figures.
    pub detail: String,
}

/// Kinds of danger, each with another remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeaknessKind {
    /// PostgreSQL: a failover could lose what was acknowledged.
    Failover,
    /// etcd: its disk quota is nearly used up.
    Quota,
}

/// What kept a store from an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{server}: {detail}")]
pub struct StoreError {
    /// What kind of trouble it is.
    pub kind: StoreErrorKind,
    /// Which server it is about, as the setting names it; several if all were tried.
    pub server: String,
    /// What the server or the operating system said.
    pub detail: String,
}

/// Kinds of trouble with a store, each with another way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreErrorKind {
    /// No connection, or it broke.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// `id_gen.registry` can't be understood.
    Address,
    /// Another setting can't be used, or a file that one names can't be read.
    Setting,
    /// The library with the stores cannot be loaded, or is of another version.
    Driver,
    /// User or password are wrong or missing, or the user may not do that.
    Credentials,
    /// Its certificate is not valid for us, or ours is not for it.
    Certificate,
    /// etcd: it does not offer the JSON gateway.
    NoGateway,
    /// etcd: its disk quota is used up.
    NoSpace,
    /// etcd: the majority of its members can't be reached.
    NoQuorum,
    /// It is another registry than that of the answers before.
    OtherCluster,
    /// etcd: it is in an older state than in answers before.
    Restored,
    /// PostgreSQL: the registry's table is missing.
    NoTable,
    /// PostgreSQL: the server is on an earlier timeline than in answers before.
    FormerPrimary,
    /// PostgreSQL: the server is read-only.
    ReadOnly,
    /// It said something that is no answer.
    Unexpected,
}

/// Why a registry has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The store has none. A write may have taken place nevertheless.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No fleet can have this name. Nothing was written.
    #[error(
        "\"{0}\" is not a valid name: it must have 1 to {LONGEST_FLEET_NAME} letters, digits, \"_\", \"-\" or \".\""
    )]
    FleetName(String),
    /// The fleet is not there. Nothing was written.
    #[error("no fleet of the registry has the name in id_gen.fleet_name")]
    NoFleet,
    /// The fleet is not the one that this server knows. Nothing was written.
    #[error("the fleet was created again or has different options")]
    OtherFleet,
    /// The fleet was made in another registry, and this one may be a copy of that. Nothing was written.
    #[error("registry \"{found}\" answered, and the fleet belongs to registry \"{own}\"")]
    OtherRegistry {
        /// [`Store::identity`] of the registry that the fleet names.
        own: String,
        /// [`Store::identity`] of the registry that answered.
        found: String,
    },
    /// A value that is none of ours. Nothing was written.
    #[error("the value of key \"{key}\" is not valid: {reason}")]
    Damaged {
        /// The key.
        key: String,
        /// What is wrong with the value.
        reason: String,
    },
}

/// A fleet that is kept in a store.
#[derive(Debug)]
pub struct Keys<S> {
    /// The store.
    pub store: S,
    prefix: String,
    meta: Meta,
    /// The fleet as the store has it.
    meta_text: String,
}

/// Longest name of a fleet, in bytes.
pub const LONGEST_FLEET_NAME: usize = 63;

/// Whether a fleet can have this name: 1 to 63 letters, digits, `_`, `-` and `.`.
pub fn is_fleet_name(name: &str) -> bool {
    (1..=LONGEST_FLEET_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

fn prefix_of(fleet: &str) -> Result<String, KeysError> {
    if !is_fleet_name(fleet) {
        return Err(KeysError::FleetName(fleet.to_owned()));
    }
    Ok(format!("/id_gen/{fleet}/"))
}

impl<S: Store> Keys<S> {
    /// A fleet that is there.
    ///
    /// # Errors
    /// If it is not or can't be, or the store has no answer.
    pub fn open(mut store: S, fleet: &str) -> Result<Keys<S>, (S, KeysError)> {
        let prefix = match prefix_of(fleet) {
            Ok(prefix) => prefix,
            Err(error) => return Err((store, error)),
        };
        match open_meta(&mut store, &prefix) {
            Ok((meta, meta_text)) => Ok(Keys { store, prefix, meta, meta_text }),
            Err(error) => Err((store, error)),
        }
    }

    /// The terms of a fleet, also where it belongs to another registry.
    ///
    /// # Errors
    /// As for [`Keys::open`].
    pub fn terms(store: &mut S, fleet: &str) -> Result<Terms, KeysError> {
        let prefix = prefix_of(fleet)?;
        store.check()?;
        read_meta(store, &prefix).map(|(meta, _)| meta.terms)
    }

    /// Makes a registry a fleet's own, to which it was moved, and sets the floor as [`Keys::repair_floor`] does, in one
    /// transaction. For an administrator who knows that nothing uses the former one any more. Returns the floor then; or
    /// which registry this is, if it is not the one that was named.
    ///
    /// # Errors
    /// As for [`Keys::open`].
    pub fn adopt(
        store: &mut S,
        fleet: &str,
        registry: &str,
        floor_ms: i64,
    ) -> Result<Result<i64, String>, KeysError> {
        let prefix = prefix_of(fleet)?;
        store.check()?;
        let (meta_key, floor_key) = (meta_key(&prefix), floor_key(&prefix));
        loop {
            let (meta, meta_text) = read_meta(store, &prefix)?;
            let found = store.identity()?;
            if found != registry {
                return Ok(Err(found));
            }
            let floor = store.get(&floor_key)?;
            let new_ms = repaired_ms(floor_of(floor.as_deref()), floor_ms, &meta.terms);
            let new_text = text::meta_in(&meta_text, registry)
                .map_err(|reason| KeysError::Damaged { key: meta_key.clone(), reason })?;
            let new_floor = new_ms.to_string();
            let others =
                [Other { key: &floor_key, expected: floor.as_deref(), new: Some(&new_floor) }];
            let (expected, new) = (Some(meta_text.as_str()), new_text.as_str());
            let swap = Swap { key: &meta_key, expected, new, others: &others };
            if store.swap(&swap)? == Swapped::Done {
                return Ok(Ok(new_ms));
            }
        }
    }

    /// Makes a fleet, and what the store needs for it. Returns the one that there is, if there is one of this name.
    ///
    /// # Errors
    /// If the store has no answer, or no fleet can have this name.
    pub fn create(store: &mut S, fleet: &str, meta: &Meta) -> Result<Option<Meta>, KeysError> {
        let prefix = prefix_of(fleet)?;
        store.check()?;
        store.prepare()?;
        let (key, new) = (meta_key(&prefix), text::encode_meta(meta, Some(&store.identity()?)));
        let swap = Swap { key: &key, expected: None, new: &new, others: &[] };
        match store.swap(&swap)? {
            Swapped::Done => Ok(None),
            Swapped::Differs { .. } | Swapped::Forbidden { .. } => {
                read_meta(store, &prefix).map(|(meta, _)| Some(meta))
            }
        }
    }

    /// The fleet.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// [`Store::identity`] of the registry that the fleet belongs to; `None` of a fleet from before those were named.
    pub fn registry(&self) -> Option<String> {
        text::registry_of(&self.meta_text)
    }

    /// What the keys of the fleet begin with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Gives a key a new value if it has the expected one, the other keys have theirs, and the fleet is still the one that the
    /// server knows.
    pub(super) fn swap_in_fleet(
        &mut self,
        key: &str,
        expected: Option<&str>,
        new: &str,
        others: &[Other<'_>],
    ) -> Result<Result<(), Unswapped>, KeysError> {
        let meta_key = meta_key(&self.prefix);
        let meta = Other { key: &meta_key, expected: Some(&self.meta_text), new: None };
        let with_meta: Vec<_> = [meta].into_iter().chain(others.iter().copied()).collect();
        match self.store.swap(&Swap { key, expected, new, others: &with_meta })? {
            Swapped::Done => Ok(Ok(())),
            Swapped::Differs { found } if Fault::SwapNotCompared.is_planted() => {
                self.swap_in_fleet(key, found.as_deref(), new, others)
            }
            Swapped::Differs { found } => Ok(Err(Unswapped::Differs(found))),
            Swapped::Forbidden { other: 0 } => Err(KeysError::OtherFleet),
            Swapped::Forbidden { .. } => Ok(Err(Unswapped::Forbidden)),
        }
    }

    /// A grant that is to be written over, or to be told: one that can't be read is an error.
    ///
    /// # Errors
    /// If it is not known.
    pub fn grant(&mut self, number: Number) -> Result<Option<Grant>, KeysError> {
        let key = self.number_key(number);
        self.store.get(&key)?.map(|text| grant_of(&key, &text)).transpose()
    }

    pub(super) fn number_key(&self, number: Number) -> String {
        self.key_in(NUMBERS, number)
    }

    fn key_in(&self, folder: &str, number: Number) -> String {
        format!("{}{folder}{}", self.prefix, name_of(number))
    }

    fn number_in(&self, folder: &str, key: &str) -> Option<Number> {
        let numbers = key.strip_prefix(self.prefix.as_str())?.strip_prefix(folder)?;
        let (datacenter, worker) = numbers.split_once('/')?;
        let number = Number { datacenter: datacenter.parse().ok()?, worker: worker.parse().ok()? };
        // Another spelling of the number is not the key that servers compare and swap.
        (self.key_in(folder, number) == key).then_some(number)
    }

    pub(super) fn floor_key(&self) -> String {
        floor_key(&self.prefix)
    }

    /// The text of the floor.
    pub(super) fn floor(&mut self) -> Result<Option<String>, KeysError> {
        let key = self.floor_key();
        Ok(self.store.get(&key)?)
    }

    /// Sets the floor by a clock that an administrator vouches for: raises it, or replaces a value that cannot be read or
    /// is higher than a server with a right clock sets it. Returns the floor then.
    ///
    /// # Errors
    /// If the store has no answer.
    pub fn repair_floor(&mut self, floor_ms: i64) -> Result<i64, KeysError> {
        let terms = self.meta.terms;
        self.move_floor(|current_ms| repaired_ms(current_ms, floor_ms, &terms))
    }

    /// Replaces the floor by what is decided by it. Returns the floor then.
    fn move_floor(&mut self, decide: impl Fn(i64) -> i64) -> Result<i64, KeysError> {
        let key = self.floor_key();
        let mut current = self.store.get(&key)?;
        loop {
            let current_ms = floor_of(current.as_deref());
            let new_ms = decide(current_ms);
            if new_ms == current_ms {
                return Ok(current_ms);
            }
            let new = new_ms.to_string();
            // Also where the fleet is gone: who makes it anew has to know of the numbers in use.
            let swap = Swap { key: &key, expected: current.as_deref(), new: &new, others: &[] };
            match self.store.swap(&swap)? {
                Swapped::Done => return Ok(new_ms),
                Swapped::Differs { found } => current = found,
                Swapped::Forbidden { .. } => {}
            }
        }
    }
}

/// Folders of the keys of grants and of shards.
const NUMBERS: &str = "n/";
pub(super) const SHARDS: &str = "s/";

/// How a number is written in a key.
pub(super) fn name_of(Number { datacenter, worker }: Number) -> String {
    format!("{datacenter}/{worker}")
}

/// The reason that a swap in a fleet did not take place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unswapped {
    /// The value of the key is this one.
    Differs(Option<String>),
    /// Another key has not the value that it has to have.
    Forbidden,
}

fn meta_key(prefix: &str) -> String {
    format!("{prefix}meta")
}

fn floor_key(prefix: &str) -> String {
    format!("{prefix}floor")
}

/// The floor that replaces another one, where an administrator sets it.
fn repaired_ms(current_ms: i64, floor_ms: i64, terms: &Terms) -> i64 {
    let highest_ms = floor_ms.saturating_add(terms.clock_difference_ms.into());
    if current_ms > highest_ms { highest_ms } else { current_ms.max(floor_ms) }
}

/// The fleet, if it belongs to this registry. One that was made before fleets named theirs is taken at its word.
fn open_meta<S: Store>(store: &mut S, prefix: &str) -> Result<(Meta, String), KeysError> {
    store.check()?;
    let (meta, meta_text) = read_meta(store, prefix)?;
    if let Some(own) = text::registry_of(&meta_text) {
        let found = store.identity()?;
        if own != found && !Fault::OtherRegistryBelieved.is_planted() {
            return Err(KeysError::OtherRegistry { own, found });
        }
    }
    Ok((meta, meta_text))
}

fn read_meta<S: Store>(store: &mut S, prefix: &str) -> Result<(Meta, String), KeysError> {
    let key = meta_key(prefix);
    let text = store.get(&key)?.ok_or(KeysError::NoFleet)?;
    let meta = text::decode_meta(&text).map_err(|reason| KeysError::Damaged { key, reason })?;
    Ok((meta, text))
}

/// The floor. One that can't be read may be any, so it is as high as a floor is believed to be.
pub(super) fn floor_of(text: Option<&str>) -> i64 {
    text.map_or(i64::MIN, |text| text.parse().unwrap_or(i64::MAX))
}

/// A grant as the protocol of numbers has it: a value that can't be read stops nobody but who wants that very number.
fn grant_or_unreadable(text: &str) -> Grant {
    text::decode_grant(text).unwrap_or_else(|_| Grant::unreadable())
}

fn grant_of(key: &str, text: &str) -> Result<Grant, KeysError> {
    text::decode_grant(text).map_err(|reason| KeysError::Damaged { key: key.to_owned(), reason })
}

impl<S: Store> Registry for Keys<S> {
    type Error = KeysError;

    fn list(&mut self) -> Result<Listing, KeysError> {
        let mut listing = Listing { floor_ms: i64::MIN, grants: Vec::new(), shards: Vec::new() };
        let (meta_key, floor_key) = (meta_key(&self.prefix), self.floor_key());
        let mut fleet = None;
        for (key, value) in self.store.list(&self.prefix)? {
            if key == meta_key {
                fleet = Some(value);
            } else if key == floor_key {
                listing.floor_ms = floor_of(Some(&value));
            } else if let Some(number) = self.number_in(NUMBERS, &key) {
                listing.grants.push((number, grant_or_unreadable(&value)));
            } else if let Some(number) = self.number_in(SHARDS, &key) {
                listing.shards.push(number);
            }
        }
        match fleet {
            None => Err(KeysError::NoFleet),
            Some(text) if text != self.meta_text => Err(KeysError::OtherFleet),
            Some(_) => {
                listing.grants.sort_by_key(|(number, _)| *number);
                listing.shards.sort_unstable();
                Ok(listing)
            }
        }
    }

    fn floor_ms(&mut self) -> Result<i64, KeysError> {
        Ok(floor_of(self.floor()?.as_deref()))
    }

    fn raise_floor(&mut self, floor_ms: i64) -> Result<i64, KeysError> {
        self.move_floor(|current_ms| current_ms.max(floor_ms))
    }

    fn read(&mut self, number: Number) -> Result<Option<Grant>, KeysError> {
        let found = self.store.get(&self.number_key(number))?;
        Ok(found.as_deref().map(grant_or_unreadable))
    }

    fn swap(
        &mut self,
        number: Number,
        expected: Option<&Grant>,
        new: &Grant,
    ) -> Result<Result<(), Option<Grant>>, KeysError> {
        let (key, shard_key) = (self.number_key(number), self.key_in(SHARDS, number));
        let is_no_shard = [Other { key: &shard_key, expected: None, new: None }];
        // While a number is held, nobody takes it as a shard.
        let acquires = expected.is_none_or(|old| old.nonce != new.nonce);
        let others = if acquires { is_no_shard.as_slice() } else { &[] };
        let (old, new) = (expected.map(text::encode_grant), text::encode_grant(new));
        let swapped = self.swap_in_fleet(&key, old.as_deref(), &new, others)?;
        Ok(swapped.map_err(|why| match why {
            Unswapped::Differs(found) => found.as_deref().map(grant_or_unreadable),
            // A server took the shard meanwhile: the number is nobody's.
            Unswapped::Forbidden => Some(Grant::unreadable()),
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fleet::grant::{GrantState, Holder};
    use crate::presets;

    #[derive(Debug, Default)]
    pub struct Double(pub BTreeMap<String, String>);

    impl Store for Double {
        fn identity(&mut self) -> Result<String, StoreError> {
            Ok("double".to_owned())
        }

        fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
            let with_prefix = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
            Ok(with_prefix.map(|(key, value)| (key.clone(), value.clone())).collect())
        }

        fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
            Ok(self.0.get(key).cloned())
        }

        fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
            let differs =
                |other: &Other<'_>| self.0.get(other.key).map(String::as_str) != other.expected;
            if let Some(other) = swap.others.iter().position(differs) {
                return Ok(Swapped::Forbidden { other });
            }
            let found = self.0.get(swap.key).cloned();
            if found.as_deref() != swap.expected {
                return Ok(Swapped::Differs { found });
            }
            self.0.insert(swap.key.to_owned(), swap.new.to_owned());
            for other in swap.others {
                if let Some(new) = other.new {
                    self.0.insert(other.key.to_owned(), new.to_owned());
                }
            }
            Ok(Swapped::Done)
        }
    }

    fn meta(id: u128) -> Meta {
        let layout = presets::by_name(presets::DEFAULT).unwrap().layout;
        Meta { id, layout, terms: Terms::DEFAULT }
    }

    pub fn fleet() -> Keys<Double> {
        created(&meta(1))
    }

    fn created(meta: &Meta) -> Keys<Double> {
        let mut store = Double::default();
        assert_eq!(Keys::create(&mut store, "f", meta).unwrap(), None);
        Keys::open(store, "f").unwrap()
    }

    fn grant(tag: u128) -> Grant {
        Grant {
            nonce: 1,
            tag,
            until_ms: 1_000,
            state: GrantState::Held,
            predecessor: None,
            watches_since_ms: None,
            holder: Holder::default(),
        }
    }

    const NUMBER: Number = Number { datacenter: 0, worker: 7 };

    #[test]
    fn a_fleet_is_made_once() {
        let mut store = fleet().store;
        assert_eq!(Keys::create(&mut store, "f", &meta(2)).unwrap(), Some(meta(1)));
        assert!(matches!(Keys::open(store, "other"), Err((_, KeysError::NoFleet))));
    }

    /// A copy of a store.
    #[derive(Debug)]
    struct Copied(Double);

    impl Store for Copied {
        fn identity(&mut self) -> Result<String, StoreError> {
            Ok("copy".to_owned())
        }

        fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
            self.0.list(prefix)
        }

        fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
            self.0.get(key)
        }

        fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
            self.0.swap(swap)
        }
    }

    #[test]
    fn a_copy_of_a_registry_gives_nothing_before_it_is_adopted() {
        let mut keys = fleet();
        keys.swap(NUMBER, None, &grant(1)).unwrap().unwrap();
        keys.raise_floor(5).unwrap();
        let (before, mut copy) = (keys.store.0.clone(), Copied(keys.store));
        let other = KeysError::OtherRegistry { own: "double".into(), found: "copy".into() };
        let Err((_, error)) = Keys::open(Copied(Double(copy.0.0.clone())), "f") else { panic!() };
        assert_eq!(error, other);
        assert_eq!(Keys::terms(&mut copy, "f"), Ok(Terms::DEFAULT));
        assert_eq!(Keys::adopt(&mut copy, "f", "double", 7), Ok(Err("copy".to_owned())));
        assert_eq!(copy.0.0, before);
        assert_eq!(Keys::adopt(&mut copy, "f", "copy", 7), Ok(Ok(7)));
        let Ok(mut adopted) = Keys::open(copy, "f") else { panic!() };
        assert_eq!((*adopted.meta(), adopted.floor_ms()), (meta(1), Ok(7)));
        assert_eq!(adopted.grant(NUMBER), Ok(Some(grant(1))));
        assert_eq!(Keys::adopt(&mut adopted.store, "f", "copy", 6), Ok(Ok(7)));
        // The former one knows nothing of that.
        assert!(Keys::open(Double(before), "f").is_ok());
    }

    #[test]
    fn a_fleet_of_the_version_before_names_no_registry_and_keeps_what_it_says_when_it_is_adopted() {
        let mut store = Double::default();
        let of_before = text::encode_meta(&meta(1), None).replace('}', r#","later":[1]}"#);
        store.0.insert("/id_gen/f/meta".to_owned(), of_before);
        assert_eq!(Keys::open(Copied(Double(store.0.clone())), "f").unwrap().meta(), &meta(1));
        assert_eq!(Keys::adopt(&mut store, "f", "double", 7), Ok(Ok(7)));
        assert!(store.0["/id_gen/f/meta"].contains(r#""later":[1]"#));
        assert!(Keys::open(Copied(Double(store.0.clone())), "f").is_err());
        assert_eq!(Keys::open(store, "f").unwrap().meta(), &meta(1));
    }

    #[test]
    fn a_grant_is_swapped_for_the_value_it_has() {
        let mut keys = fleet();
        assert_eq!(keys.swap(NUMBER, None, &grant(1)), Ok(Ok(())));
        assert_eq!(keys.swap(NUMBER, None, &grant(2)), Ok(Err(Some(grant(1)))));
        assert_eq!(keys.swap(NUMBER, Some(&grant(1)), &grant(2)), Ok(Ok(())));
        assert_eq!(keys.grant(NUMBER), Ok(Some(grant(2))));
        assert_eq!(keys.list().unwrap().grants, vec![(NUMBER, grant(2))]);
    }

    #[test]
    fn a_fleet_that_is_gone_or_another_gives_no_number() {
        let mut keys = fleet();
        let key = meta_key(&keys.prefix);
        keys.store.0.remove(&key);
        assert_eq!(keys.swap(NUMBER, None, &grant(1)), Err(KeysError::OtherFleet));
        assert_eq!(keys.list(), Err(KeysError::NoFleet));
        Keys::create(&mut keys.store, "f", &meta(2)).unwrap();
        assert_eq!(keys.swap(NUMBER, None, &grant(1)), Err(KeysError::OtherFleet));
        assert_eq!(keys.list(), Err(KeysError::OtherFleet));
    }

    #[test]
    fn the_floor_only_rises_and_outlives_the_fleet() {
        let mut keys = fleet();
        assert_eq!(keys.floor_ms(), Ok(i64::MIN));
        keys.store.0.clear();
        assert_eq!(keys.raise_floor(5), Ok(5));
        assert_eq!(keys.raise_floor(3), Ok(5));
        assert_eq!(keys.floor_ms(), Ok(5));
    }

    #[test]
    fn an_administrator_replaces_a_floor_that_is_unreadable_or_years_ahead() {
        let mut keys = fleet();
        let highest_ms = 5 + i64::from(Terms::DEFAULT.clock_difference_ms);
        for wrong in ["soon", "99999999999999"] {
            keys.store.0.insert("/id_gen/f/floor".to_owned(), wrong.to_owned());
            assert!(keys.raise_floor(5).unwrap() > highest_ms, "a server leaves it as it is");
            assert_eq!(keys.repair_floor(5), Ok(highest_ms));
            assert_eq!(keys.floor_ms(), Ok(highest_ms));
            assert_eq!(
                keys.repair_floor(5),
                Ok(highest_ms),
                "not lower than a right clock sets it"
            );
        }
        assert_eq!(keys.repair_floor(highest_ms + 1), Ok(highest_ms + 1));
    }

    #[test]
    fn values_of_others_are_named() {
        let mut keys = fleet();
        keys.store.0.insert("/id_gen/f/n/0/07".to_owned(), "of another program".to_owned());
        assert_eq!(keys.list().unwrap().grants, vec![]);
        keys.store.0.insert("/id_gen/f/n/0/7".to_owned(), "{}".to_owned());
        assert!(
            matches!(keys.grant(NUMBER), Err(KeysError::Damaged { key, .. }) if key == "/id_gen/f/n/0/7")
        );
    }

    #[test]
    fn a_value_that_cannot_be_read_is_not_free_and_hides_no_other() {
        let mut keys = fleet();
        let other = Number { worker: 8, ..NUMBER };
        keys.swap(other, None, &grant(1)).unwrap().unwrap();
        keys.store.0.insert("/id_gen/f/n/0/7".to_owned(), "{}".to_owned());
        keys.store.0.insert("/id_gen/f/floor".to_owned(), "soon".to_owned());
        let Listing { grants, floor_ms, .. } = keys.list().unwrap();
        assert_eq!(grants, [(NUMBER, Grant::unreadable()), (other, grant(1))]);
        assert_eq!((floor_ms, keys.floor_ms()), (i64::MAX, Ok(i64::MAX)));
        assert_eq!(keys.raise_floor(5), Ok(i64::MAX), "nothing is written over it");
        // Whoever held it finds that it is another's.
        let found = keys.swap(NUMBER, Some(&grant(1)), &grant(2)).unwrap();
        assert_eq!(found, Err(Some(Grant::unreadable())));
        assert_eq!(keys.read(NUMBER), Ok(Some(Grant::unreadable())));
        assert_eq!(keys.store.0["/id_gen/f/n/0/7"], "{}");
    }

    #[test]
    fn names_of_fleets() {
        assert!(["a", "orders-eu_1.x"].into_iter().all(is_fleet_name));
        assert!(!["", "a/b", "ä", "a b"].into_iter().any(is_fleet_name));
        assert!(is_fleet_name(&"a".repeat(63)) && !is_fleet_name(&"a".repeat(64)));
        let opened = Keys::open(fleet().store, "a/b");
        assert!(matches!(opened, Err((_, KeysError::FleetName(name))) if name == "a/b"));
    }
}
