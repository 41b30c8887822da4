//! What the standbys of a server get of its reservation: the bound alone, which means the same on every
//! one of them, in a few bytes that travel with the server's write-ahead log.

/// How many bytes [`encode`] makes.
pub const SIZE: usize = 20;

/// How they begin: what they are, and the version of the format.
const MAGIC: [u8; 8] = *b"idgenrs1";

/// A bound that was replayed from the write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// No ID of this Unix millisecond or later was generated before the bound was logged.
    pub until_ms: i64,
    /// The position in the log where the bound's record ends.
    pub log_position: u64,
    /// The timeline on which it was logged: this server's, or one of those before it.
    pub timeline: u32,
}

/// The bytes that say "no ID of this Unix millisecond or later was handed out before this". All numbers
/// are little-endian; the last is the CRC-32 of what precedes it.
pub fn encode(until_ms: i64) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&until_ms.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..16]);
    bytes[16..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The bound, in Unix milliseconds; `None` if the bytes are not what [`encode`] made.
pub fn decode(bytes: &[u8; SIZE]) -> Option<i64> {
    let until_ms = i64::from_le_bytes(bytes[8..16].try_into().ok()?);
    (encode(until_ms) == *bytes).then_some(until_ms)
}
