//! The reservation: a promise written ahead of use, and the file that holds it.
//!
//! A [`Record`] says "this server has handed out no ID of the time [`Record::until_ms`] or later".
//! It is made durable before any such ID is claimed, so that whatever happens to memory, the next
//! start knows where the IDs of the last one end. The bound is a time, not a position, so that it
//! holds across a change of layout.
//!
//! The file is text that a person can read, in lines of fixed order, closed by a CRC-32 of all
//! bytes before its line. A file that is not exactly that is damaged; nothing is guessed from it.

use std::fmt::Write;

use crate::clock::Reading;
use crate::layout::Layout;

/// Where the file is, from the server's data directory.
pub const FILE: &str = "id_gen/reservation";

/// First line of every version of the file.
const MAGIC: &str = "id_gen reservation";
/// The version of the format that this code writes. It also reads the first, which does not tell the server's start.
pub const VERSION: u32 = 2;
const VERSION_WITHOUT_START: u32 = 1;
const KNOWN_VERSIONS: [u32; 2] = [VERSION_WITHOUT_START, VERSION];

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The database cluster that it belongs to, as `pg_control` knows it.
    pub system_identifier: u64,
    /// The timeline on which it was written: a promotion starts another.
    pub timeline: u32,
    /// The layout of the IDs it speaks of.
    pub layout: Layout,
    /// No ID of this time or later has been handed out, in Unix milliseconds.
    pub until_ms: i64,
    /// The boot of the machine during which `clock` was read.
    pub boot: u128,
    /// The clocks as last believed.
    pub clock: Reading,
    /// When the server (the postmaster) that wrote it was started, in Unix microseconds: it survives a crash of one of
    /// its processes, and so do the settings that it was started with.
    pub server_start_us: Option<i64>,
}

/// Why a file is no record. `Display` is the fact in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not begin as one.
    #[error("it does not begin with \"{MAGIC}\"")]
    NotARecord,
    /// It is of a version that this code does not know.
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
        let Reading { wall_ns, mono_ns } = self.clock;
        let version = if self.server_start_us.is_some() { VERSION } else { VERSION_WITHOUT_START };
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "{MAGIC} {version}\nsystem {}\ntimeline {}\nlayout {}\nuntil {}\nboot {:032x}\nclock {wall_ns} {mono_ns}\n",
            self.system_identifier, self.timeline, self.layout, self.until_ms, self.boot,
        );
        if let Some(start_us) = self.server_start_us {
            let _ = writeln!(text, "started {start_us}");
        }
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "crc32 {checksum:08x}");
        text.into_bytes()
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
            Reading { wall_ns: number(wall_ns, "clock")?, mono_ns: number(mono_ns, "clock")? };
        let server_start_us = match version.ok_or(Damage::Line("version"))? {
            VERSION_WITHOUT_START => None,
            _ => Some(number(value("started")?, "started")?),
        };
        Ok(Record { system_identifier, timeline, layout, until_ms, boot, clock, server_start_us })
    }
}

fn number<T: std::str::FromStr>(text: &str, name: &'static str) -> Result<T, Damage> {
    text.parse().map_err(|_| Damage::Line(name))
}
