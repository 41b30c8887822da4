//! The identity of a directory, or of a file: what distinguishes it from its copies.

use std::fmt::{self, Display, Formatter};

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
    fn a_person_can_find_it() {
        assert_eq!(directory(7, None).to_string(), "inode 7");
        let created = directory(7, Some(1_717_200_000_000_000_000)).to_string();
        assert!(created.starts_with("inode 7, created 2024-06-01"), "{created}");
    }
}
