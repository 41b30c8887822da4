//! What the standbys and copies of a server get of its reservation: the bound, which means the same on every one of them, the
//! layout of the IDs below it, and who generates them, in a few bytes that travel with the server's write-ahead log.

use crate::directory::Directory;
use crate::fleet::Number;
use crate::layout::Layout;
use crate::originals::Claim;

/// How many bytes [`Bound::encode`] makes.
pub const SIZE: usize = 184;

/// How they begin: what they are, and the version of the format.
const MAGIC: [u8; 8] = *b"idgenrs5";
/// Where the layout's text begins, and where it ends at the latest; zeros follow it.
const LAYOUT: usize = 52;
const LAYOUT_END: usize = SIZE - 4;
/// Flags, in the four bytes before the layout's text.
const HAS_NUMBER: u32 = 1;
const HAS_CREATED: u32 = 2;
const IS_GRANTED: u32 = 4;
const IS_ACCEPTED: u32 = 8;

/// The bound that a server logs: no ID of this time or later was handed out before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The server's database cluster.
    pub system_identifier: u64,
    /// The time, in Unix milliseconds.
    pub until_ms: i64,
    /// The layout of the IDs before it.
    pub layout: Layout,
    /// The worker and datacenter ID in those that follow, if the server has them.
    pub number: Option<Number>,
    /// How the server has it.
    pub claim: Claim,
    /// The directory of the server's reservation, which is not that of any other server.
    pub directory: Directory,
}

/// A bound that was replayed from the write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The bound, with the server that logged it.
    pub bound: Bound,
    /// The position in the log where its record ends.
    pub log_position: u64,
    /// The timeline on which it was logged: this server's, or one of those before it.
    pub timeline: u32,
}

impl Bound {
    /// The bytes that say so. All numbers are little-endian; the last is the CRC-32 of what precedes it.
    pub fn encode(&self) -> [u8; SIZE] {
        let Directory { inode, created_ns } = self.directory;
        let (worker, datacenter) = self.number.map_or((0, 0), |it| (it.worker, it.datacenter));
        let known = if self.number.is_some() { HAS_NUMBER } else { 0 }
            | if created_ns.is_some() { HAS_CREATED } else { 0 }
            | match self.claim {
                Claim::Assigned => 0,
                Claim::Granted => IS_GRANTED,
                Claim::Accepted => IS_ACCEPTED,
            };
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.system_identifier.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.until_ms.to_le_bytes());
        bytes[24..32].copy_from_slice(&inode.to_le_bytes());
        bytes[32..40].copy_from_slice(&created_ns.unwrap_or_default().to_le_bytes());
        bytes[40..44].copy_from_slice(&worker.to_le_bytes());
        bytes[44..48].copy_from_slice(&datacenter.to_le_bytes());
        bytes[48..LAYOUT].copy_from_slice(&known.to_le_bytes());
        for (byte, letter) in
            bytes[LAYOUT..LAYOUT_END].iter_mut().zip(self.layout.to_string().bytes())
        {
            *byte = letter;
        }
        let crc = crc32fast::hash(&bytes[..LAYOUT_END]);
        bytes[LAYOUT_END..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the bytes; `None` if they are not what [`encode`](Self::encode) made.
    pub fn decode(bytes: &[u8; SIZE]) -> Option<Bound> {
        let long = |at: usize| Some(u64::from_le_bytes(bytes[at..at + 8].try_into().ok()?));
        let short = |at: usize| Some(u32::from_le_bytes(bytes[at..at + 4].try_into().ok()?));
        let known = short(48)?;
        let (worker, datacenter, created_ns) = (short(40)?, short(44)?, long(32)?);
        let text = std::str::from_utf8(&bytes[LAYOUT..LAYOUT_END]).ok()?;
        let bound = Bound {
            system_identifier: long(8)?,
            until_ms: long(16)?.cast_signed(),
            layout: text.trim_end_matches('\0').parse().ok()?,
            number: (known & HAS_NUMBER != 0).then_some(Number { datacenter, worker }),
            claim: match known & (IS_GRANTED | IS_ACCEPTED) {
                0 => Claim::Assigned,
                IS_GRANTED => Claim::Granted,
                _ => Claim::Accepted,
            },
            directory: Directory {
                inode: long(24)?,
                created_ns: (known & HAS_CREATED != 0).then_some(created_ns),
            },
        };
        (bound.encode() == *bytes).then_some(bound)
    }
}
