//! Identity of files.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use crate::fs::{DirectoryStamp, FileIdentity};

pub(super) fn identity_of(metadata: &Metadata) -> FileIdentity {
    let created_at = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
        created_at: created_at.map(|time| time.as_nanos().cast_signed()),
    }
}

pub(super) fn stamp_of(metadata: &Metadata) -> DirectoryStamp {
    const NANOS_PER_SECOND: i128 = 1_000_000_000;
    let changed_at = i128::from(metadata.mtime()) * NANOS_PER_SECOND + i128::from(metadata.mtime_nsec());
    DirectoryStamp { identity: identity_of(metadata), changed_at }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use super::super::files::PosixLiveFile;
    use super::*;
    use crate::fs::LiveFile;

    #[test]
    fn changes_of_an_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, b"one").unwrap();
        let live = PosixLiveFile::new(&path, File::open(&path).unwrap()).unwrap();
        let identity = |path: &Path| identity_of(&std::fs::metadata(path).unwrap());
        let read = |offset| {
            let mut bytes = [0; 8];
            let len = live.read_at(offset, &mut bytes).unwrap();
            bytes[..len].to_vec()
        };
        assert_eq!(
            (read(0), live.len().unwrap(), identity(&path) == live.identity()),
            (b"one".to_vec(), 3, true)
        );
        std::fs::write(&path, b"one two").unwrap();
        assert_eq!((read(4), live.len().unwrap()), (b"two".to_vec(), 7));
        std::fs::write(&path, b"o").unwrap();
        assert_eq!((read(4), live.len().unwrap()), (vec![], 1));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"another file").unwrap();
        assert_eq!(read(0), b"o");
        assert_ne!(identity(&path), live.identity());
        let before = stamp_of(&std::fs::metadata(dir.path()).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::fs::write(dir.path().join("new"), b"").unwrap();
        let after = stamp_of(&std::fs::metadata(dir.path()).unwrap());
        assert!(after.identity == before.identity && after.changed_at > before.changed_at);
    }
}
