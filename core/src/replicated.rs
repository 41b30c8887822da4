//! What the standbys of a server get of its reservation: the bound, which means the same on every one of them, and the layout
//! of the IDs below it, in a few bytes that travel with the server's write-ahead log.

use crate::layout::Layout;

/// How many bytes [`encode`] makes.
pub const SIZE: usize = 156;

/// How they begin: what they are, and the version of the format.
const MAGIC: [u8; 8] = *b"idgenrs3";
/// Where the layout's text begins, and where it ends at the latest; zeros follow it.
const LAYOUT: usize = 24;
const LAYOUT_END: usize = SIZE - 4;

/// A bound that was replayed from the write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// No ID of this Unix millisecond or later was generated before the bound was logged.
    pub until_ms: i64,
    /// The layout of the IDs before it.
    pub layout: Layout,
    /// The position in the log where the bound's record ends.
    pub log_position: u64,
    /// The database cluster in which it was logged.
    pub system_identifier: u64,
    /// The timeline on which it was logged: this server's, or one of those before it.
    pub timeline: u32,
}

/// The bytes that say "no ID of this Unix millisecond or later was handed out before this, and those before are of this
/// layout", in a database cluster. All numbers are little-endian; the last is the CRC-32 of what precedes it.
pub fn encode(system_identifier: u64, until_ms: i64, layout: &Layout) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&system_identifier.to_le_bytes());
    bytes[16..LAYOUT].copy_from_slice(&until_ms.to_le_bytes());
    for (byte, letter) in bytes[LAYOUT..LAYOUT_END].iter_mut().zip(layout.to_string().bytes()) {
        *byte = letter;
    }
    let crc = crc32fast::hash(&bytes[..LAYOUT_END]);
    bytes[LAYOUT_END..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The cluster, the bound in Unix milliseconds, and the layout; `None` if the bytes are not what [`encode`] made.
pub fn decode(bytes: &[u8; SIZE]) -> Option<(u64, i64, Layout)> {
    let system_identifier = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    let until_ms = i64::from_le_bytes(bytes[16..LAYOUT].try_into().ok()?);
    let text = std::str::from_utf8(&bytes[LAYOUT..LAYOUT_END]).ok()?;
    let layout = text.trim_end_matches('\0').parse().ok()?;
    (encode(system_identifier, until_ms, &layout) == *bytes).then_some((
        system_identifier,
        until_ms,
        layout,
    ))
}
