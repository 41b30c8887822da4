//! The identity of a directory, or of a file: what distinguishes it from its copies. It decides whether what a server keeps
//! only for itself was written here.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::time::{format_ms, unix_ms};

/// A directory or a file, as its file system identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its inode number.
    pub inode: u64,
    /// When it was created, in Unix nanoseconds; `None` if its file system does not record that.
    pub created_ns: Option<u64>,
}

impl Directory {
    /// Of no file: what an old one is said to be, once another has replaced it.
    pub const NOWHERE: Directory = Directory { inode: 0, created_ns: Some(0) };

    /// Whether both are the same directory, as far as their file systems reveal it.
    ///
    /// A copy is created later than its original, and no program can set the time of creation, so this time decides. The
    /// inode number decides only if there is no such time: the number of a removed directory is soon used again, and some
    /// file systems (overlayfs over several others, some of FUSE) assign other numbers after each mount.
    pub fn is_same(&self, other: &Directory) -> bool {
        match (self.created_ns, other.created_ns) {
            (Some(own), Some(others)) => own == others,
            _ => self.inode == other.inode,
        }
    }
}

impl Display for Directory {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "inode {}", self.inode)?;
        let Some(created_ns) = self.created_ns else { return Ok(()) };
        write!(formatter, ", created {}", format_ms(unix_ms(created_ns)))
    }
}

/// Where a file was written: in which directory, and as which file, for each version of it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The directory.
    pub directory: Directory,
    /// The file; `None` if its file system takes it for another one once it is renamed.
    pub file: Option<Directory>,
}

impl Origin {
    /// Whether a file that was written so is the one that is found so: neither a copy, nor an earlier version that was put
    /// back.
    pub fn is_same(&self, found: &Origin) -> bool {
        self.directory.is_same(&found.directory)
            && self.file.zip(found.file).is_none_or(|(written, found)| written.is_same(&found))
    }

    /// As text, four words.
    pub fn encode(&self) -> String {
        let Origin { directory, file } = self;
        let numbers = [
            Some(directory.inode),
            directory.created_ns,
            file.map(|file| file.inode),
            file.and_then(|file| file.created_ns),
        ];
        numbers.map(or_none).join(" ")
    }

    /// What [`encode`](Self::encode) wrote.
    pub fn decode(text: &str) -> Option<Origin> {
        let mut words = text.split(' ');
        let mut number = || optional(words.next()?);
        let (inode, created_ns) = (number()??, number()?);
        let (file_inode, file_created_ns) = (number()?, number()?);
        let file = file_inode.map(|inode| Directory { inode, created_ns: file_created_ns });
        words
            .next()
            .is_none()
            .then_some(Origin { directory: Directory { inode, created_ns }, file })
    }
}

/// In the place of a number that is not known.
const NONE: &str = "none";

/// A number as text that [`optional`] reads.
pub(crate) fn or_none(number: Option<impl Display>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

/// A number that may be `none`.
pub(crate) fn optional<T: FromStr>(text: &str) -> Option<Option<T>> {
    if text == NONE { Some(None) } else { text.parse().ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(inode: u64, created_ns: Option<u64>) -> Directory {
        Directory { inode, created_ns }
    }

    #[test]
    fn the_time_of_creation_decides() {
        let original = directory(7, Some(1_000));
        assert!(original.is_same(&original));
        assert!(
            !original.is_same(&directory(7, Some(1_001))),
            "an inode number that is used again"
        );
        assert!(original.is_same(&directory(8, Some(1_000))), "another number after a mount");
    }

    #[test]
    fn without_it_the_inode_number_decides() {
        let original = directory(7, None);
        for created_ns in [None, Some(1_000)] {
            assert!(original.is_same(&directory(7, created_ns)));
            assert!(directory(7, created_ns).is_same(&original));
            assert!(!original.is_same(&directory(8, created_ns)));
        }
    }

    #[test]
    fn a_file_is_where_it_was_written() {
        let file = directory(9, Some(2_000));
        let written = Origin { directory: directory(7, Some(1_000)), file: Some(file) };
        for created_ns in [None, Some(1_000)] {
            for file in [None, Some(directory(9, None)), Some(file)] {
                let origin = Origin { directory: directory(7, created_ns), file };
                assert_eq!(Origin::decode(&origin.encode()), Some(origin));
                assert!(written.is_same(&origin));
            }
        }
        assert!(!written.is_same(&Origin { directory: directory(7, Some(1_001)), ..written }));
        assert!(!written.is_same(&Origin { file: Some(directory(9, Some(2_001))), ..written }));
        for text in ["", "7", "none 1 2 3", "7 1 2", "7 1 2 3 4", "7 1 2 x"] {
            assert_eq!(Origin::decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_person_can_find_it() {
        assert_eq!(directory(7, None).to_string(), "inode 7");
        let created = directory(7, Some(1_717_200_000_000_000_000)).to_string();
        assert!(created.starts_with("inode 7, created 2024-06-01"), "{created}");
    }
}
