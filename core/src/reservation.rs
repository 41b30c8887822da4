//! The reservation: what is written ahead of use, and the file that holds it.
//!
//! A [`Record`] says "this server has handed out no ID of the time [`Record::until_ms`] or later".
//! It is made durable before any such ID is claimed. So the next start knows where the IDs of the last
//! one end, whatever happens to memory. The bound is a time, not a position, so that it holds across a
//! change of layout.
//!
//! The file is text that a person can read, in lines of fixed order, closed by a CRC-32 of all
//! bytes before its line. Any other file is damaged, and nothing is guessed from it.

use std::fmt::Write;

use crate::clock::ClockReading;
use crate::layout::Layout;

/// Where the file is, from the server's data directory.
pub const RESERVATION_FILE: &str = "id_gen/reservation";

/// Where it is noted when `pg_upgrade` filled this cluster, in Unix milliseconds.
pub const UPGRADE_FILE: &str = "id_gen/upgraded";

/// First line of every version of the file.
const MAGIC: &str = "id_gen reservation";
/// The version of the format that this code writes. It also reads the older ones: the first tells
/// neither the server's start nor its numbers, the second only the start.
pub const VERSION: u32 = 3;
const VERSION_WITHOUT_START: u32 = 1;
const VERSION_WITHOUT_NODE: u32 = 2;
const KNOWN_VERSIONS: [u32; 3] = [VERSION_WITHOUT_START, VERSION_WITHOUT_NODE, VERSION];
/// What stands for a value that there is none of.
const NONE: &str = "none";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The database cluster that it belongs to, as `pg_control` knows it.
    pub system_identifier: u64,
    /// The timeline on which it was written: a promotion starts another.
    pub timeline: u32,
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
    /// The numbers of the server that wrote it; `None` if it had none, and in files of older versions.
    pub node: Option<RecordedNode>,
}

/// The numbers under which a reservation was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedNode {
    /// The worker number.
    pub worker: u32,
    /// The datacenter number.
    pub datacenter: u32,
    /// Until which Unix millisecond the server had a right to them, if that was limited.
    pub valid_until_ms: Option<i64>,
}

/// Why a file is no record. `Display` is the fact in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not begin as one.
    #[error("it does not begin with \"{MAGIC}\"")]
    NotARecord,
    /// Its version is one that this code does not know.
    #[error("its format is version {0}, and the newest known is {VERSION}")]
    Version(u32),
    /// It ends too early.
    #[error("it is cut short")]
    CutShort,
    /// Its bytes are not those that were written.
    #[error("its checksum is {found:08x}, not {expected:08x}")]
    Checksum {
        /// The checksum in the file.
        found: u32,
        /// The checksum of the bytes before it.
        expected: u32,
    },
    /// A line is not what it should be, although the checksum is right.
    #[error("its line \"{0}\" is not valid")]
    Line(&'static str),
}

impl Record {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = String::with_capacity(512);
        let ClockReading { wall_ns, mono_ns } = self.clock;
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "{MAGIC} {}\nsystem {}\ntimeline {}\nlayout {}\nuntil {}\nboot {:032x}\nclock {wall_ns} {mono_ns}\n",
            self.version(),
            self.system_identifier,
            self.timeline,
            self.layout,
            self.until_ms,
            self.boot,
        );
        if self.version() != VERSION_WITHOUT_START {
            let _ = writeln!(text, "started {}", or_none(self.server_start_us));
        }
        if let Some(RecordedNode { worker, datacenter, valid_until_ms }) = self.node {
            let valid_until = or_none(valid_until_ms);
            let _ = write!(
                text,
                "worker {worker}\ndatacenter {datacenter}\nvalid_until {valid_until}\n"
            );
        }
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "crc32 {checksum:08x}");
        text.into_bytes()
    }

    /// The version that says all of it.
    const fn version(&self) -> u32 {
        match (self.node, self.server_start_us) {
            (Some(_), _) => VERSION,
            (None, Some(_)) => VERSION_WITHOUT_NODE,
            (None, None) => VERSION_WITHOUT_START,
        }
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`Damage`] says what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Record, Damage> {
        let magic = bytes.get(..MAGIC.len()).ok_or(Damage::NotARecord)?;
        if magic != MAGIC.as_bytes() {
            return Err(Damage::NotARecord);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Damage::Line("text"))?;
        let version = text.lines().next().and_then(|line| line[MAGIC.len()..].trim().parse().ok());
        if let Some(version) = version.filter(|version| !KNOWN_VERSIONS.contains(version)) {
            return Err(Damage::Version(version));
        }
        let (body, checksum) = text.rsplit_once("crc32 ").ok_or(Damage::CutShort)?;
        let checksum = checksum.strip_suffix('\n').ok_or(Damage::CutShort)?;
        let found = u32::from_str_radix(checksum, 16).map_err(|_| Damage::Line("crc32"))?;
        let expected = crc32fast::hash(body.as_bytes());
        if found != expected {
            return Err(Damage::Checksum { found, expected });
        }
        let mut lines = body.lines();
        lines.next();
        let mut value = |name: &'static str| {
            lines
                .next()
                .and_then(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .ok_or(Damage::Line(name))
        };
        let system_identifier = number(value("system")?, "system")?;
        let timeline = number(value("timeline")?, "timeline")?;
        let layout = value("layout")?.parse().map_err(|_| Damage::Line("layout"))?;
        let until_ms = number(value("until")?, "until")?;
        let boot = u128::from_str_radix(value("boot")?, 16).map_err(|_| Damage::Line("boot"))?;
        let (wall_ns, mono_ns) = value("clock")?.split_once(' ').ok_or(Damage::Line("clock"))?;
        let clock =
            ClockReading { wall_ns: number(wall_ns, "clock")?, mono_ns: number(mono_ns, "clock")? };
        let version = version.ok_or(Damage::Line("version"))?;
        let server_start_us = match version {
            VERSION_WITHOUT_START => None,
            VERSION_WITHOUT_NODE => Some(number(value("started")?, "started")?),
            _ => number_or_none(value("started")?, "started")?,
        };
        let node = match version {
            VERSION_WITHOUT_START | VERSION_WITHOUT_NODE => None,
            _ => Some(RecordedNode {
                worker: number(value("worker")?, "worker")?,
                datacenter: number(value("datacenter")?, "datacenter")?,
                valid_until_ms: number_or_none(value("valid_until")?, "valid_until")?,
            }),
        };
        Ok(Record {
            system_identifier,
            timeline,
            layout,
            until_ms,
            boot,
            clock,
            server_start_us,
            node,
        })
    }
}

fn or_none(number: Option<i64>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

fn number_or_none(text: &str, name: &'static str) -> Result<Option<i64>, Damage> {
    if text == NONE { Ok(None) } else { number(text, name).map(Some) }
}

fn number<T: std::str::FromStr>(text: &str, name: &'static str) -> Result<T, Damage> {
    text.parse().map_err(|_| Damage::Line(name))
}
