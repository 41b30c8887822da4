//! Which numbers this server may take of its fleet, and who it is for the others.

use std::ffi::CStr;

use id_gen_core::fleet::grant::Holder;
use id_gen_core::fleet::member::Numbers;
use id_gen_core::fleet::shard::Member;
use id_gen_core::fleet::{ActiveGrant, Number};
use id_gen_core::identity::Identity;
use id_gen_core::layout::{Field, Layout};
use id_gen_core::originals::Originals;
use id_gen_core::startup::{self, Assignment, StoredRecord};

use crate::durable::{self, replicated};
use crate::error::Error;
use crate::error::fleet::COPIED_SERVER;
use crate::pg::server;
use crate::shared::{Membership, SharedState};

/// The numbers that the settings allow: the one that is typed, or those of `id_gen.worker_id_range`, or all that the layout
/// has; without those that servers outside of the fleet may have.
///
/// # Errors
/// What is wrong with the settings, if they can't be understood or go beyond the layout.
pub fn allowed(
    layout: &Layout,
    typed: &Identity,
    worker_ids: &str,
    originals: Originals,
) -> Result<Numbers, String> {
    let max = |field| layout.max_number(field);
    let (max_worker, max_datacenter) = (max(Field::Worker), max(Field::Datacenter));
    let datacenter = typed.datacenter;
    if datacenter > max_datacenter {
        return Err(format!(
            "id_gen.datacenter_id is {datacenter}; layout \"{layout}\" has room for 0 to {max_datacenter}"
        ));
    }
    let (first, last) = match (typed.worker, worker_ids.trim()) {
        (Some(worker), _) => (worker, worker),
        (None, "") => (0, max_worker),
        (None, text) => {
            let range = text.split_once('-').unwrap_or((text, text));
            let number = |text: &str| text.trim().parse::<u32>().ok();
            let range = number(range.0).zip(number(range.1)).filter(|(first, last)| first <= last);
            range.ok_or_else(|| {
                format!("id_gen.worker_id_range is \"{text}\", which is not a range such as 0-511")
            })?
        }
    };
    if last > max_worker {
        let setting = match typed.worker {
            Some(_) => format!("id_gen.worker_id is {last}"),
            None => format!("id_gen.worker_id_range is \"{}\"", worker_ids.trim()),
        };
        return Err(format!("{setting}; layout \"{layout}\" has room for 0 to {max_worker}"));
    }
    let originals = (originals != Originals::NONE).then(|| Box::new(originals));
    let numbers = Numbers { layout: *layout, datacenter, first, last, originals };
    if let Some(worker) = typed.worker
        && !numbers.contain(Number { datacenter, worker })
    {
        return Err(format!("id_gen.worker_id is {worker}; {COPIED_SERVER} may have it"));
    }
    Ok(numbers)
}

/// The servers that this one is a copy of.
///
/// # Errors
/// If a file cannot be read, or was lost.
pub fn originals(shared: &SharedState, layout: &Layout) -> Result<Originals, Error> {
    let (known, started, max_lead_ms) = {
        let state = shared.lock();
        (state.originals, state.allocator.is_some(), state.settings.max_lead_ms)
    };
    if started {
        return Ok(known);
    }
    if server::is_in_recovery() {
        // What is found is compared with this server's timeline, which a standby does not have yet. Its promotion adds none, and
        // is refused without the file.
        let stored = durable::read().unwrap_or(StoredRecord::Lost);
        let recorded = stored.record().map_or(Originals::NONE, |record| record.originals);
        return Ok(known.and(&recorded));
    }
    // Before it starts, they are in its files and its log.
    let (stored, replayed) = (durable::read_known(layout)?, replicated::read()?);
    let context = durable::startup_context(*layout, max_lead_ms, replayed, Assignment::Registry)?;
    Ok(startup::originals(stored.record(), &context, known, None))
}

/// Who this server is for the others.
pub fn holder(server_id: u128) -> Holder {
    Holder {
        server_id,
        system_identifier: server::system_identifier(),
        timeline: server::timeline_or_replayed(),
        host: host_name(),
        port: server::port(),
    }
}

fn host_name() -> String {
    // Longer than any host's name.
    let mut bytes = [0_u8; 256];
    // SAFETY: a place of that many bytes; the last is not given, so that there is an end of the text.
    let found = unsafe { libc::gethostname(bytes.as_mut_ptr().cast(), bytes.len() - 1) } == 0;
    let name = CStr::from_bytes_until_nul(&bytes).ok().filter(|_| found);
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// This server as a member of its fleet that asks for shards: its number, the nonce of its acquisition, the bound that was
/// acknowledged last, and who it is. `None` if it has no number.
pub fn own_member(membership: &Membership) -> Option<Member> {
    let (grant, nonce) = (membership.active_grant?, membership.nonce?);
    let until_ms = membership.acknowledged.map_or(grant.until_ms, |(_, until_ms)| until_ms);
    let ActiveGrant { number, first_ms, .. } = grant;
    let holder = holder(membership.server_id);
    Some(Member { number, nonce, until_ms, first_ms, holder })
}
