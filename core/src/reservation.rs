//! The reservation: what is written ahead of use, and the file that holds it.
//!
//! A [`Record`] says "this server has handed out no ID of the time [`Record::until_ms`] or later".
//! It is made durable before any such ID is claimed. So the next start knows where the IDs of the last
//! one end, whatever happens to memory. The bound is a time, not a position, so that it holds across a
//! change of layout.
//!
//! The file is text that a person can read, in lines of fixed order, closed by a CRC-32 of all
//! bytes before its line. Any other file is damaged, and nothing is guessed from it.

use std::fmt::{Display, Write};
use std::str::FromStr;

use crate::clock::ClockReading;
use crate::directory::Directory;
use crate::fleet::Number;
use crate::layout::Layout;

/// Where the file is, from the server's data directory.
pub const RESERVATION_FILE: &str = "id_gen/reservation";

/// Where it is noted when `pg_upgrade` filled this cluster, in Unix milliseconds.
pub const UPGRADE_FILE: &str = "id_gen/upgraded";

/// First line of every version of the file.
const MAGIC: &str = "id_gen reservation";
/// The version of the format that this code writes. Older versions are read, too; what they do not contain is `None`.
pub const VERSION: u32 = 5;
const FIRST_VERSION: u32 = 1;
const FIRST_WITH_START: u32 = 2;
const FIRST_WITH_NODE: u32 = 3;
const FIRST_WITH_DIRECTORY: u32 = 4;
const FIRST_WITH_FILE: u32 = 5;
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
    /// The end of the write-ahead log when it was written. Its bound takes precedence over all bounds that were logged up
    /// to here: it is above them, or a superuser has accepted that it is not.
    pub log_position: Option<u64>,
    /// The directory in which it was written. In a copy of that directory it is about another server.
    pub directory: Option<Directory>,
    /// The file that it was written to, a new one for each write. A file of the same content in its place is a copy of an
    /// earlier one.
    pub file: Option<Directory>,
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
        let node = self.node;
        let lines = [
            format!("{MAGIC} {VERSION}"),
            format!("system {}", self.system_identifier),
            format!("timeline {}", self.timeline),
            format!("layout {}", self.layout),
            format!("until {}", self.until_ms),
            format!("boot {:032x}", self.boot),
            format!("clock {wall_ns} {mono_ns}"),
            format!("started {}", or_none(self.server_start_us)),
            format!("worker {}", or_none(node.map(|node| node.worker))),
            format!("datacenter {}", or_none(node.map(|node| node.datacenter))),
            format!("valid_until {}", or_none(node.and_then(|node| node.valid_until_ms))),
            format!("log {}", or_none(self.log_position)),
            format!("inode {}", or_none(self.directory.map(|directory| directory.inode))),
            format!(
                "created {}",
                or_none(self.directory.and_then(|directory| directory.created_ns))
            ),
            format!("file_inode {}", or_none(self.file.map(|file| file.inode))),
            format!("file_created {}", or_none(self.file.and_then(|file| file.created_ns))),
        ];
        for line in lines {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{line}");
        }
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "crc32 {checksum:08x}");
        text.into_bytes()
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
        let magic = bytes.get(..MAGIC.len()).ok_or(Damage::NotARecord)?;
        if magic != MAGIC.as_bytes() {
            return Err(Damage::NotARecord);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Damage::Line("text"))?;
        let version = text.lines().next().and_then(|line| line[MAGIC.len()..].trim().parse().ok());
        if let Some(version) =
            version.filter(|version| !(FIRST_VERSION..=VERSION).contains(version))
        {
            return Err(Damage::Version(version));
        }
        let (body, checksum) = text.rsplit_once("crc32 ").ok_or(Damage::CutShort)?;
        let checksum = checksum.strip_suffix('\n').ok_or(Damage::CutShort)?;
        let found = u32::from_str_radix(checksum, 16).map_err(|_| Damage::Line("crc32"))?;
        let expected = crc32fast::hash(body.as_bytes());
        if found != expected {
            return Err(Damage::Checksum { found, expected });
        }
        let mut lines =
            Lines { rest: body.lines(), version: version.ok_or(Damage::Line("version"))? };
        lines.rest.next();
        Ok(Record {
            system_identifier: lines.number("system")?,
            timeline: lines.number("timeline")?,
            layout: lines.value("layout")?.parse().map_err(|_| Damage::Line("layout"))?,
            until_ms: lines.number("until")?,
            boot: u128::from_str_radix(lines.value("boot")?, 16)
                .map_err(|_| Damage::Line("boot"))?,
            clock: lines.clock()?,
            server_start_us: lines.optional("started", FIRST_WITH_START)?,
            node: lines.node()?,
            log_position: lines.optional("log", FIRST_WITH_DIRECTORY)?,
            directory: lines.identity("inode", "created", FIRST_WITH_DIRECTORY)?,
            file: lines.identity("file_inode", "file_created", FIRST_WITH_FILE)?,
        })
    }
}

/// The lines of a file that are still to be read.
struct Lines<'a> {
    rest: std::str::Lines<'a>,
    /// The version of the file.
    version: u32,
}

impl<'a> Lines<'a> {
    fn value(&mut self, name: &'static str) -> Result<&'a str, Damage> {
        self.rest
            .next()
            .and_then(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .ok_or(Damage::Line(name))
    }

    fn number<T: FromStr>(&mut self, name: &'static str) -> Result<T, Damage> {
        number(self.value(name)?, name)
    }

    /// A number that may be `none`, and has no line in files of versions before `first_version`.
    fn optional<T: FromStr>(
        &mut self,
        name: &'static str,
        first_version: u32,
    ) -> Result<Option<T>, Damage> {
        if self.version < first_version {
            return Ok(None);
        }
        match self.value(name)? {
            NONE => Ok(None),
            text => number(text, name).map(Some),
        }
    }

    fn clock(&mut self) -> Result<ClockReading, Damage> {
        let (wall_ns, mono_ns) =
            self.value("clock")?.split_once(' ').ok_or(Damage::Line("clock"))?;
        Ok(ClockReading { wall_ns: number(wall_ns, "clock")?, mono_ns: number(mono_ns, "clock")? })
    }

    fn node(&mut self) -> Result<Option<RecordedNode>, Damage> {
        let worker = self.optional("worker", FIRST_WITH_NODE)?;
        let datacenter = self.optional("datacenter", FIRST_WITH_NODE)?;
        let valid_until_ms = self.optional("valid_until", FIRST_WITH_NODE)?;
        Ok(worker.zip(datacenter).map(|(worker, datacenter)| RecordedNode {
            worker,
            datacenter,
            valid_until_ms,
        }))
    }

    fn identity(
        &mut self,
        inode: &'static str,
        created: &'static str,
        first_version: u32,
    ) -> Result<Option<Directory>, Damage> {
        let inode = self.optional(inode, first_version)?;
        let created_ns = self.optional(created, first_version)?;
        Ok(inode.map(|inode| Directory { inode, created_ns }))
    }
}

fn or_none(number: Option<impl Display>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

fn number<T: FromStr>(text: &str, name: &'static str) -> Result<T, Damage> {
    text.parse().map_err(|_| Damage::Line(name))
}
