//! Files that say what one server keeps over a clean stop, or for itself alone: text about one data directory and one
//! timeline of one cluster, closed by a CRC-32 of all bytes before its line. In a copy, or once a standby was promoted, such
//! a file says nothing; nor does an earlier one that is put back into its own directory.

use std::fmt::Write;

use crate::directory::Origin;

/// What a file is about: a server with its own disk, until it or another becomes its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The database cluster.
    pub system_identifier: u64,
    /// Its timeline.
    pub timeline: u32,
    /// Its directory, and the file itself.
    pub origin: Origin,
}

impl Place {
    /// Whether a file that is about this one is about the other.
    pub fn is_same(&self, found: &Place) -> bool {
        (self.system_identifier, self.timeline) == (found.system_identifier, found.timeline)
            && self.origin.is_same(&found.origin)
    }
}

/// What a kind of file begins with.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// The newest version of its format.
    pub version: u32,
}

/// Why a file can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Of a later version of this extension.
    #[error("its format is version {found}, and the newest known is {known}")]
    Newer {
        /// Its version.
        found: u32,
        /// The newest that this code knows.
        known: u32,
    },
    /// Anything else.
    #[error(transparent)]
    Damaged(Flaw),
}

/// What is wrong with a damaged file. No text: that lies elsewhere in each process, and this is kept in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It has no bytes.
    #[error("the file is empty")]
    Empty,
    /// Its bytes are not UTF-8.
    #[error("it is not text")]
    NoText,
    /// It begins otherwise.
    #[error("the file was not written by id_gen")]
    NoName,
    /// Its version is below the first.
    #[error("its version never was one")]
    NoVersion,
    /// Its last line is missing, or part of it.
    #[error("it is cut short")]
    CutShort,
    /// Its bytes are not those that were written.
    #[error("its checksum is wrong")]
    Checksum,
    /// A line can't be read.
    #[error("one of its lines is not valid")]
    Line,
    /// It names more than there is room for.
    #[error("it has more lines than a server has room for")]
    TooMany,
}

impl From<Flaw> for Damage {
    fn from(flaw: Flaw) -> Damage {
        Damage::Damaged(flaw)
    }
}

/// The text of a file.
pub fn encode(kind: Kind, place: &Place, lines: impl Iterator<Item = String>) -> String {
    let Kind { name, version } = kind;
    let Place { system_identifier, timeline, origin } = place;
    // Writing to a String can't fail.
    let mut text = String::new();
    let _ = writeln!(text, "{name} {version}");
    let _ = writeln!(text, "place {system_identifier} {timeline} {}", origin.encode());
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    let checksum = crc32fast::hash(text.as_bytes());
    let _ = writeln!(text, "crc32 {checksum:08x}");
    text
}

/// What the bytes of a file say: its place, and its own lines.
///
/// # Errors
/// If that is not to be known.
pub fn decode(kind: Kind, bytes: &[u8]) -> Result<(Place, impl Iterator<Item = &str>), Damage> {
    let Kind { name, version: known } = kind;
    if bytes.is_empty() {
        return Err(Flaw::Empty.into());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Flaw::NoText)?;
    let first = text.lines().next().and_then(|line| line.strip_prefix(name));
    match first.and_then(|rest| rest.trim().parse().ok()) {
        None => return Err(Flaw::NoName.into()),
        Some(found) if found > known => return Err(Damage::Newer { found, known }),
        Some(found) if found != known => return Err(Flaw::NoVersion.into()),
        Some(_) => {}
    }
    let (body, checksum) = text.rsplit_once("crc32 ").ok_or(Flaw::CutShort)?;
    let checksum = checksum.strip_suffix('\n').ok_or(Flaw::CutShort)?;
    if u32::from_str_radix(checksum, 16) != Ok(crc32fast::hash(body.as_bytes())) {
        return Err(Flaw::Checksum.into());
    }
    let mut lines = body.lines().skip(1);
    let place = lines.next().and_then(place_of).ok_or(Flaw::Line)?;
    Ok((place, lines))
}

fn place_of(line: &str) -> Option<Place> {
    let mut words = line.strip_prefix("place ")?.splitn(3, ' ');
    Some(Place {
        system_identifier: words.next()?.parse().ok()?,
        timeline: words.next()?.parse().ok()?,
        origin: Origin::decode(words.next()?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use proptest::prelude::*;

    const KIND: Kind = Kind { name: "id_gen tests", version: 2 };
    const PLACE: Place = Place {
        system_identifier: u64::MAX,
        timeline: 3,
        origin: Origin { directory: Directory { inode: 2, created_ns: Some(4) }, file: None },
    };

    fn text() -> String {
        encode(KIND, &PLACE, ["one".to_owned(), "two".to_owned()].into_iter())
    }

    fn found(text: &str) -> Result<(Place, Vec<&str>), Damage> {
        decode(KIND, text.as_bytes()).map(|(place, lines)| (place, lines.collect()))
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(found(&text()), Ok((PLACE, vec!["one", "two"])));
    }

    #[test]
    fn a_newer_file_is_newer_and_not_damaged() {
        let newer = text().replace("tests 2", "tests 3");
        assert_eq!(found(&newer), Err(Damage::Newer { found: 3, known: 2 }));
        assert_eq!(found(&text().replace("tests 2", "tests 1")), Err(Flaw::NoVersion.into()));
    }

    proptest! {
        #[test]
        fn no_change_of_a_byte_goes_unnoticed(at in 0..100_usize, to in any::<u8>()) {
            let mut bytes = text().into_bytes();
            let at = at % bytes.len();
            prop_assume!(bytes[at] != to && !bytes[at].eq_ignore_ascii_case(&to));
            bytes[at] = to;
            prop_assert!(decode(KIND, &bytes).is_err());
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(KIND, &bytes).map(|(_, lines)| lines.count());
        }
    }
}
