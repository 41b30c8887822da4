//! What an administrator's session asks of the registry: to see the fleet, to make one, to release a number, to tell
//! that the registry was restored.

use std::time::Duration;

use id_gen_core::fleet::member::Phase;
use id_gen_core::fleet::shard::{self, Member, Outcome, Returned, ShardValue, Wanted};
use id_gen_core::fleet::store::{Keys, KeysError, Store as _, StoreErrorKind};
use id_gen_core::fleet::{Grant, GrantState, Meta, Number, Registry as _, Terms};
use id_gen_core::layout::{Field, Layout};
use id_gen_core::originals::Originals;
use id_gen_core::ticket::shared::{self as ticket, NoRange, Set};
use id_gen_core::time::NS_PER_MS;

use crate::durable::{self, number_file};
use crate::error::fleet::{Trouble, TroubleKind};
use crate::error::shards::ShardRefusal;
use crate::error::{Error, Reason};
use crate::fleet::connection::{self, Registry};
use crate::fleet::numbers;
use crate::fleet::queue;
use crate::os::{clock, random};
use crate::settings;
use crate::shared::{SharedState, State, memory};

/// How often a release is tried where the holder renews its grant between the reading and the writing.
const TRIES: usize = 20;

/// Asks the registry of this server's fleet: not that of another one, which is named by mistake.
fn ask<T>(work: impl FnOnce(&mut Registry) -> Result<T, KeysError>) -> Result<T, Error> {
    let done = queue::ask(move |registry| {
        let keys = match registry.fleet() {
            Err(error @ KeysError::Store(_)) => return Err(error),
            // Whether that matters is for the command to say.
            found => found.ok(),
        };
        if let Some((id, found)) = keys.and_then(|keys| Some((keys.meta().id, keys.registry()?)))
            && let Some(own) = number_file::other_registry(id, &found)
        {
            return Ok(Err(Trouble::other_fleet(&own, &found)));
        }
        work(registry).map(Ok)
    })?;
    done.map_err(|trouble| Reason::Fleet(trouble).into())
}

/// The fleet and all numbers that were ever held.
///
/// # Errors
/// If there is no fleet, or the registry has no answer.
pub fn list() -> Result<(Meta, Vec<(Number, Grant)>), Error> {
    ask(|registry| {
        let keys = registry.fleet()?;
        let grants = keys.list()?.grants;
        Ok((*keys.meta(), grants))
    })
}

/// The outcome of [`create`].
pub enum Created {
    /// There is a new fleet.
    New,
    /// There was one, which this server joins. It leaves its own, which is in another registry.
    Joined,
    /// There was one.
    Exists(Meta),
}

/// Makes a fleet. If there is one, and this server belongs to a fleet in another registry, it leaves that and joins this one.
///
/// # Errors
/// As for [`list`].
pub fn create(meta: Meta) -> Result<Created, Error> {
    let shared = memory::attach()?;
    // The registrar may find the fleet before the answer comes here.
    shared.lock().made_fleet = Some((meta.id, clock::mono_ns() / NS_PER_MS));
    let found = queue::ask(move |registry| {
        let Some((store, fleet)) = registry.store() else { return Err(KeysError::NoFleet) };
        let Some(found) = Keys::create(store, fleet, &meta)? else { return Ok(None) };
        let is_elsewhere = number_file::other_registry(found.id, &store.identity()?).is_some();
        if is_elsewhere {
            // It may be a copy.
            registry.fleet()?;
        }
        Ok(Some((found, is_elsewhere)))
    })?;
    let Some((found, is_elsewhere)) = found else {
        await_fleet(shared);
        return Ok(Created::New);
    };
    if !is_elsewhere {
        return Ok(Created::Exists(found));
    }
    let layout = shared.layout()?;
    if found.layout != *layout {
        return Err(Reason::Fleet(Trouble::other_layout(&found.layout, layout)).into());
    }
    shared.lock().accepted_fleet = Some(found.id);
    match await_fleet(shared) {
        Some(trouble) => Err(Reason::Fleet(trouble).into()),
        None => Ok(Created::Joined),
    }
}

/// Waits until the registrar has found the fleet: a statement of a hint ends only once the hint is gone. Returns its trouble, if
/// there is another.
fn await_fleet(shared: &SharedState) -> Option<Trouble> {
    shared.registrar.wake();
    let trouble = || shared.lock().membership.trouble;
    queue::await_change(shared, || {
        let is_gone =
            |it: Trouble| !matches!(it.kind, TroubleKind::NoFleet | TroubleKind::OtherFleet);
        trouble().is_none_or(is_gone)
    });
    trouble()
}

/// Releases a number whose holder is gone for good. Its bound stays: until then nobody takes it. Returns that bound, in
/// Unix milliseconds; `None` if nobody holds it.
///
/// # Errors
/// As for [`list`].
pub fn release(number: Number) -> Result<Option<i64>, Error> {
    let mut tags = [0; TRIES];
    random::fresh(&mut tags)?;
    ask(move |registry| {
        let keys = registry.fleet()?;
        for tag in tags {
            let Some(held) = keys.grant(number)?.filter(|it| it.state == GrantState::Held) else {
                return Ok(None);
            };
            let released = Grant { state: GrantState::Released, tag, ..held.clone() };
            if keys.swap(number, Some(&held), &released)?.is_ok() {
                return Ok(Some(held.until_ms));
            }
        }
        Err(KeysError::Store(connection::no_answer()))
    })
}

/// What a bound was and what it is now, in Unix milliseconds.
pub struct Lowered {
    /// Before.
    pub before_ms: i64,
    /// Now.
    pub until_ms: i64,
}

/// Releases a number whose bound lies further ahead than any server with a right clock sets it, and lowers the bound to the
/// furthest that one does. Any other number stays as it is. `None` if it was never held. Where the number is held, waits for
/// as long as a server takes that renews its grant.
///
/// # Errors
/// As for [`list`]; or a server renews the grant; or this server's clock is behind.
pub fn lower(number: Number) -> Result<Option<Lowered>, Error> {
    let mut tags = [0];
    random::fresh(&mut tags)?;
    let found = ask(move |registry| registry.fleet()?.grant(number))?;
    let Some(found) = found else { return Ok(None) };
    // A time after that of the bound: by an earlier one, a bound that was just set could look too far ahead.
    let (terms, latest_ms) = terms_and_latest_ms()?;
    let before_ms = found.until_ms;
    let until_ms = terms.believable_ms(before_ms, latest_ms);
    let lowered = Some(Lowered { before_ms, until_ms });
    if until_ms == before_ms {
        return Ok(lowered);
    }
    if found.state == GrantState::Held {
        wait(Duration::from_millis(terms.discovery_ms()));
    }
    let new = Grant { state: GrantState::Released, tag: tags[0], until_ms, ..found.clone() };
    match ask(move |registry| registry.fleet()?.swap(number, Some(&found), &new))? {
        Ok(()) => Ok(lowered),
        Err(_) => Err(Reason::Renewed(number).into()),
    }
}

/// Waits for so long. Interrupts end the wait.
fn wait(patience: Duration) {
    let since_ns = clock::mono_ns();
    let passed = || Duration::from_nanos(clock::mono_ns().saturating_sub(since_ns));
    while let Some(left) = patience.checked_sub(passed()).filter(|left| !left.is_zero()) {
        connection::wait(None, left);
    }
}

/// Lowers where IDs of a shard begin, as [`shard::lower`]. `None` if there is no such shard.
///
/// # Errors
/// As for [`list`]; or this server's clock is behind.
pub fn lower_shard(shard: Number) -> Result<Option<Lowered>, Error> {
    let mut tags = [0; TRIES];
    random::fresh(&mut tags)?;
    let (_, now_ms) = terms_and_latest_ms()?;
    match ask(move |registry| shard::lower(registry.fleet()?, shard, now_ms, &tags))? {
        shard::Lowered::Done { before_ms, above_ms: until_ms } => {
            Ok(Some(Lowered { before_ms, until_ms }))
        }
        shard::Lowered::Unknown => Ok(None),
        shard::Lowered::Contended => Err(ShardRefusal::Contended.into()),
    }
}

/// Tells the fleet that its registry was restored: numbers acquired from now on make IDs above all that any server may
/// make that the registry has forgotten. Returns from which Unix millisecond on.
///
/// # Errors
/// As for [`list`]; or this server's clock is behind.
pub fn restored() -> Result<i64, Error> {
    let report = || {
        let (terms, latest_ms) = terms_and_latest_ms()?;
        let floor_ms = latest_ms.saturating_add(terms.forgotten_ms());
        ask(move |registry| registry.fleet()?.repair_floor(floor_ms))
    };
    let is_replaced =
        |trouble: Trouble| trouble.kind == TroubleKind::Store(StoreErrorKind::FormerPrimary);
    // If the registry is refused because another server has replaced it, that is decided first.
    if memory::attach()?.lock().membership.trouble.is_some_and(is_replaced) {
        follow_restore()?;
    }
    match report() {
        Err(error) if matches!(error.reason(), Reason::Fleet(it) if is_replaced(*it)) => {
            follow_restore()?;
            report()
        }
        done => done,
    }
}

/// Has the registrar believe the registry as it is now.
fn follow_restore() -> Result<(), Error> {
    let shared = memory::attach()?;
    shared.lock().restores += 1;
    shared.registrar.wake();
    Ok(())
}

/// Makes the registry of this name the fleet's own, to which it was moved, and does what [`restored`] does.
///
/// # Errors
/// As for [`restored`]; or this server's registry has another name.
pub fn adopt(name: String) -> Result<i64, Error> {
    let (terms, latest_ms) = terms_and_latest_ms()?;
    let floor_ms = latest_ms.saturating_add(terms.forgotten_ms());
    let wanted = name.clone();
    let adopted = ask(move |registry| {
        let Some((store, fleet)) = registry.store() else { return Err(KeysError::NoFleet) };
        Keys::adopt(store, fleet, &wanted, floor_ms)
    })?;
    adopted.map_err(|found| Reason::NotThisRegistry { name, found }.into())
}

/// Lets this server use the number that it has just acquired, and shards: an administrator says that the registry was not
/// restored. Returns the Unix millisecond from which it generates with it; `None` if it cannot use it yet for another reason.
///
/// # Errors
/// If the registry has no answer: the wait ends once it has one.
pub fn end_wait() -> Result<Option<i64>, Error> {
    let shared = memory::attach()?;
    let phase = {
        let mut state = shared.lock();
        let phase = state.membership.phase;
        shared.end_waits_with_shards(&mut state);
        if !matches!(phase, Some(Phase::Waiting { .. })) {
            return Ok(first_ms(&state));
        }
        state.ended_waits += 1;
        phase
    };
    shared.registrar.wake();
    if queue::await_change(shared, || shared.lock().membership.phase != phase) {
        return Ok(first_ms(&shared.lock()));
    }
    Err(match shared.registrar.is_running() {
        true => Reason::Fleet((&KeysError::Store(connection::no_answer())).into()).into(),
        false => Reason::NoRegistrar.into(),
    })
}

fn first_ms(state: &State) -> Option<i64> {
    Some(state.membership.active_grant?.first_ms)
}

/// Asks for a shard for this server.
///
/// # Errors
/// As for [`list`].
pub fn take_shard(shard: Number, member: &Member, wanted: Wanted) -> Result<Outcome, Error> {
    let now_ms = now_ms()?;
    let mut tags = [0; TRIES];
    random::fresh(&mut tags)?;
    ask(move |registry| shard::take(registry.fleet()?, shard, member, wanted, now_ms, &tags))
}

/// Gives back a shard, of which this server made no ID of this Unix millisecond or later.
///
/// # Errors
/// As for [`list`].
pub fn release_shard(shard: Number, member: &Member, above_ms: i64) -> Result<Returned, Error> {
    let now_ms = now_ms()?;
    let mut tags = [0; TRIES];
    random::fresh(&mut tags)?;
    ask(move |registry| shard::release(registry.fleet()?, shard, member, above_ms, now_ms, &tags))
}

/// All shards that the registry knows of; none in place of a value that can't be read.
///
/// # Errors
/// As for [`list`].
pub fn shards() -> Result<Vec<(Number, Option<ShardValue>)>, Error> {
    ask(|registry| shard::list_located(registry.fleet()?))
}

/// Whether a number may be a shard's: it is not for the registry to grant to servers, of which this one has `own`.
///
/// # Errors
/// If it may grant it.
pub fn check_shard_number(
    layout: &Layout,
    shard: Number,
    own: Option<Number>,
) -> Result<(), Error> {
    let Some(settings) = settings::registry::current() else { return Ok(()) };
    let granted =
        numbers::allowed(layout, &settings::identity(), &settings.worker_ids, Originals::NONE);
    let may_be = granted.is_ok_and(|it| {
        it.datacenter == shard.datacenter && (it.first..=it.last).contains(&shard.worker)
    });
    if may_be {
        let max = layout.max_number(Field::Worker);
        let own = own.map(|own| own.worker);
        return Err(ShardRefusal::MayBeGranted { number: shard, granted: false, own, max }.into());
    }
    Ok(())
}

/// Sets a ticket of the fleet: it goes on with `next`, or later.
///
/// # Errors
/// As for [`list`].
pub fn set_ticket(
    name: String,
    step: i64,
    next: i64,
    above: Option<i64>,
) -> Result<Result<Set, NoRange>, Error> {
    ask(move |registry| ticket::set(registry.fleet()?, &name, step, next, above))
}

/// The fleet's terms, and the latest time that this server's clocks allow for, in Unix milliseconds: what is lowered by an
/// earlier one may be in use.
///
/// # Errors
/// As for [`list`]; or the reservation is lost or cannot be read; or the wall clock is behind that time by more than the
/// clocks of a fleet may differ: either it is wrong, or it was before.
fn terms_and_latest_ms() -> Result<(Terms, i64), Error> {
    let terms = ask(|registry| {
        let Some((store, fleet)) = registry.store() else { return Err(KeysError::NoFleet) };
        Keys::terms(store, fleet)
    })?;
    let shared = memory::attach()?;
    let before_start = durable::read_known(shared.layout()?)?.trusted_clocks(durable::boot());
    let (latest_ms, behind_ms) = shared.lock().latest_ms(before_start);
    if behind_ms > terms.clock_difference_ms.into() {
        return Err(Reason::ClockBehind { behind_ms }.into());
    }
    Ok((terms, latest_ms))
}

/// What time it is by the clock that this server trusts.
fn now_ms() -> Result<i64, Error> {
    Ok(memory::attach()?.lock().trusted_ms(None))
}
