//! The reservation: what is written ahead of use, and the file that holds it.
//!
//! A [`Record`] says "this server has handed out no ID of the time [`Record::until_ms`] or later".
//! It is made durable before any such ID is claimed. So the next start knows where the IDs of the last
//! one end, whatever happens to memory. The bound is a time, not a position, so that it holds across a
//! change of layout.
//!
//! The file is a [`kept_file`], in lines of fixed order, with a line for each original at the end. Any other file is damaged, and nothing is guessed from it.

use crate::clock::ClockReading;
use crate::directory::{optional, or_none};
use crate::fleet::Number;
use crate::kept_file::{self, Damage, Flaw, Kind, Place};
use crate::layout::Layout;
use crate::originals::{Claim, Original, Originals};

/// Where the file is, from the server's data directory.
pub const RESERVATION_FILE: &str = "id_gen/reservation";

/// Where it is noted when `pg_upgrade` filled this cluster, in Unix milliseconds.
pub const UPGRADE_FILE: &str = "id_gen/upgraded";

const KIND: Kind = Kind { name: "id_gen reservation", version: 1 };

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it was written. In a copy of that directory it is about another server; a file of the same content in its place
    /// is a copy of an earlier one.
    pub place: Place,
    /// The layout of the IDs that it is about.
    pub layout: Layout,
    /// No ID of this Unix millisecond or later has been handed out.
    pub until_ms: i64,
    /// The boot of the machine during which `clock` was read.
    pub boot: u128,
    /// The clocks as last trusted.
    pub clock: ClockReading,
    /// When the server (the postmaster) that wrote it was started, in Unix microseconds: it survives
    /// a crash of one of its processes, and so do the settings that it was started with.
    pub server_start_us: Option<i64>,
    /// The numbers of the server that wrote it: those that IDs were made with last.
    pub node: Option<RecordedNode>,
    /// Up to where the write-ahead log was flushed when it was written, so that no crash leads back behind it. Its bound takes
    /// precedence over all bounds that were logged up to here: it is above them, or a superuser has accepted that it is not.
    pub log_position: u64,
    /// The servers that this one is a copy of.
    pub originals: Originals,
}

/// The numbers under which a reservation was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedNode {
    /// The worker number.
    pub worker: u32,
    /// The datacenter number.
    pub datacenter: u32,
    /// Until which Unix millisecond the server had a right to them, if a registry granted them.
    pub granted_until_ms: Option<i64>,
}

impl Record {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let ClockReading { wall_ns, mono_ns } = self.clock;
        let node = self.node;
        let lines = [
            format!("layout {}", self.layout),
            format!("until {}", self.until_ms),
            format!("boot {:032x}", self.boot),
            format!("clock {wall_ns} {mono_ns}"),
            format!("started {}", or_none(self.server_start_us)),
            format!("worker {}", or_none(node.map(|node| node.worker))),
            format!("datacenter {}", or_none(node.map(|node| node.datacenter))),
            format!("valid_until {}", or_none(node.and_then(|node| node.granted_until_ms))),
            format!("log {}", self.log_position),
        ];
        let originals = self.originals.iter().map(|(Original { layout, number }, claim)| {
            format!("{} {} {} {layout}", name_of(*claim), number.worker, number.datacenter)
        });
        let more = self.originals.has_more.map(|claim| format!("{MORE} {}", name_of(claim)));
        let lines = lines.into_iter().chain(originals).chain(more);
        kept_file::encode(KIND, &self.place, lines).into_bytes()
    }

    /// The worker and datacenter ID of the server that wrote it, if it had them.
    pub fn number(&self) -> Option<Number> {
        self.node.map(|RecordedNode { worker, datacenter, .. }| Number { datacenter, worker })
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`Damage`] says what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Record, Damage> {
        let (place, lines) = kept_file::decode(KIND, bytes)?;
        record_of(place, lines).ok_or(Damage::Damaged(Flaw::Line))
    }
}

/// The line about originals that have none, with the strongest of their claims.
const MORE: &str = "more";

const fn name_of(claim: Claim) -> &'static str {
    match claim {
        Claim::Assigned => "original",
        Claim::Granted => "granted",
        Claim::Accepted => "accepted",
    }
}

fn claim_of(name: &str) -> Option<Claim> {
    [Claim::Assigned, Claim::Granted, Claim::Accepted].into_iter().find(|it| name_of(*it) == name)
}

fn record_of<'a>(place: Place, mut lines: impl Iterator<Item = &'a str>) -> Option<Record> {
    let mut value = |name| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let record = Record {
        place,
        layout: value("layout")?.parse().ok()?,
        until_ms: value("until")?.parse().ok()?,
        boot: u128::from_str_radix(value("boot")?, 16).ok()?,
        clock: value("clock")?.split_once(' ').and_then(|(wall_ns, mono_ns)| {
            Some(ClockReading { wall_ns: wall_ns.parse().ok()?, mono_ns: mono_ns.parse().ok()? })
        })?,
        server_start_us: optional(value("started")?)?,
        node: {
            let (worker, datacenter) =
                (optional(value("worker")?)?, optional(value("datacenter")?)?);
            let granted_until_ms = optional(value("valid_until")?)?;
            worker.zip(datacenter).map(|(worker, datacenter)| RecordedNode {
                worker,
                datacenter,
                granted_until_ms,
            })
        },
        log_position: value("log")?.parse().ok()?,
        originals: Originals::NONE,
    };
    let originals = lines.try_fold(Originals::NONE, |mut all, line| {
        let mut words = line.splitn(4, ' ');
        let first = words.next()?;
        if first == MORE && all.has_more.is_none() {
            all.has_more = Some(claim_of(words.next()?)?);
            return Some(all);
        }
        let claim = claim_of(first)?;
        let (worker, datacenter) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let number = Number { datacenter, worker };
        let listed = all.with(Original { layout: words.next()?.parse().ok()?, number }, claim);
        (listed.has_more == all.has_more).then_some(listed)
    })?;
    Some(Record { originals, ..record })
}
