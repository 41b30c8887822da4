//! The file that says which shards a server has, and above which times.
//!
//! It is written before a shard is used, and again before another server may use it. Of a shard that was given away it
//! keeps up to where its IDs may go, as long as this server could come to make IDs below that with the same number.
//!
//! As every [`kept_file`] it is about one directory: in a copy, or once a standby was promoted, it says nothing, and an
//! earlier one that is put back says nothing of the shards that were given away since.

use crate::fleet::Number;
use crate::kept_file::{self, Damage, Flaw, Kind, Place};

/// The file, in the data directory.
pub const SHARD_FILE: &str = "id_gen/pgsql_tmp_shards";

const KIND: Kind = Kind { name: "id_gen shards", version: 1 };

/// How a server has a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// As an administrator declared.
    Declared,
    /// As the fleet's registry says.
    Fleet,
    /// It has given it away.
    Released,
}

impl Holding {
    const NAMES: [(Holding, &'static str); 3] = [
        (Holding::Declared, "declared"),
        (Holding::Fleet, "fleet"),
        (Holding::Released, "released"),
    ];

    fn name(self) -> &'static str {
        Holding::NAMES.iter().find(|(holding, _)| *holding == self).map_or("", |(_, name)| name)
    }
}

/// What the file says of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of the shard, with its datacenter.
    pub number: Number,
    /// Whether the server has it.
    pub holding: Holding,
    /// Since when, in Unix milliseconds.
    pub since_ms: i64,
    /// IDs of the shard that are not known to this server's reservation lie below this Unix millisecond.
    pub above_ms: i64,
    /// The tag of the registry's value that was acknowledged to this server last; zero if none is known.
    pub tag: u32,
}

/// The text of the file.
pub fn encode(place: &Place, entries: &[Entry]) -> String {
    let line = |Entry { number, holding, since_ms, above_ms, tag }: &Entry| {
        let Number { datacenter, worker } = number;
        let holding = holding.name();
        format!("shard {datacenter} {worker} {holding} {since_ms} {above_ms} {tag:x}")
    };
    kept_file::encode(KIND, place, entries.iter().map(line))
}

/// What the bytes of a file say.
///
/// # Errors
/// If that is not to be known.
pub fn decode(bytes: &[u8]) -> Result<(Place, Vec<Entry>), Damage> {
    let (place, lines) = kept_file::decode(KIND, bytes)?;
    let entries = lines.map(entry_of).collect::<Option<_>>().ok_or(Flaw::Line)?;
    Ok((place, entries))
}

fn entry_of(line: &str) -> Option<Entry> {
    let mut words = line.strip_prefix("shard ")?.split(' ');
    let number =
        Number { datacenter: words.next()?.parse().ok()?, worker: words.next()?.parse().ok()? };
    let holding = words.next()?;
    let (holding, _) = Holding::NAMES.into_iter().find(|(_, name)| *name == holding)?;
    let entry = Entry {
        number,
        holding,
        since_ms: words.next()?.parse().ok()?,
        above_ms: words.next()?.parse().ok()?,
        // A version before did not write it.
        tag: words.next().map_or(Some(0), |tag| u32::from_str_radix(tag, 16).ok())?,
    };
    words.next().is_none().then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{Directory, Origin};

    fn place() -> Place {
        let directory = Directory { inode: 2, created_ns: Some(4) };
        Place {
            system_identifier: u64::MAX,
            timeline: 3,
            origin: Origin { directory, file: Some(directory) },
        }
    }

    fn entry(worker: u32, holding: Holding) -> Entry {
        Entry {
            number: Number { datacenter: 1, worker },
            holding,
            since_ms: -5,
            above_ms: i64::MAX,
            tag: 0xa0,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for entries in [vec![], Holding::NAMES.map(|(holding, _)| entry(7, holding)).to_vec()] {
            let text = encode(&place(), &entries);
            assert_eq!(decode(text.as_bytes()), Ok((place(), entries)));
        }
    }

    #[test]
    fn a_line_of_the_version_before_names_no_tag() {
        let of_before = entry_of("shard 1 7 fleet -5 9223372036854775807");
        assert_eq!(of_before, Some(Entry { tag: 0, ..entry(7, Holding::Fleet) }));
        assert_eq!(entry_of("shard 1 7 fleet -5 0 a 1"), None);
    }
}
