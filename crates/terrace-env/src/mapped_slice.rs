//! Part of a mapped file that keeps its file open.
#![allow(unsafe_code)] // Extends a borrow to the lifetime of the reference count beside it.

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::fs::RandomAccessFile;

/// Part of the contents of a mapped file, with shared ownership of the file.
///
/// A mapped file of the system can change or shrink if another program writes to it. The slice then
/// shows the new bytes, and an access beyond the new end kills the process with SIGBUS.
pub struct MappedSlice {
    /// Part of the slice that `file` returned.
    bytes: NonNull<[u8]>,
    file: Arc<dyn RandomAccessFile>,
}

// SAFETY: the slice is only read, and its owner `file` is Send and Sync.
unsafe impl Send for MappedSlice {}
// SAFETY: a shared reference only gives read access to the slice, and its owner `file` is Sync.
unsafe impl Sync for MappedSlice {}

impl MappedSlice {
    /// Returns the whole contents of `file`, if it is mapped.
    pub fn new(file: &Arc<dyn RandomAccessFile>) -> Option<MappedSlice> {
        let file = Arc::clone(file);
        let bytes = NonNull::from(file.mapped_slice()?);
        Some(MappedSlice { bytes, file })
    }

    /// Replaces the slice by the part `range` of the file. Returns false, and changes nothing, if
    /// the file is shorter.
    pub fn set_range(&mut self, range: Range<usize>) -> bool {
        let Some(part) = self.file.mapped_slice().and_then(|bytes| bytes.get(range)) else { return false };
        self.bytes = NonNull::from(part);
        true
    }
}

impl Clone for MappedSlice {
    fn clone(&self) -> MappedSlice {
        MappedSlice { bytes: self.bytes, file: Arc::clone(&self.file) }
    }
}

impl Deref for MappedSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `mapped_slice` of the file returned the slice, or a slice that contains it. Its
        // borrow may last as long as a shared borrow of the file. The file lives as long as the
        // reference count in `file`, and its other owners also have only shared borrows of it.
        unsafe { self.bytes.as_ref() }
    }
}

impl fmt::Debug for MappedSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedSlice({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fs::{AccessMode, FileSystem};
    use crate::mem::MemFs;

    #[test]
    fn outlives_the_handle_and_the_name_of_the_file() {
        let fs = MemFs::new();
        let path = Path::new("/table");
        let mut file = fs.create(path).unwrap();
        file.append(b"0123456789").unwrap();
        file.close().unwrap();
        let file = fs.open_random_access(path, AccessMode::Mmap).unwrap();
        let mut slice = MappedSlice::new(&file).unwrap();
        let whole = slice.clone();
        assert!(slice.set_range(2..5) && !slice.set_range(5..11));
        drop(file);
        fs.remove(path).unwrap();
        assert_eq!((&*slice, &*whole), (&b"234"[..], &b"0123456789"[..]));
        let unmapped = fs.open_random_access(path, AccessMode::Pread);
        assert!(unmapped.is_err());
    }
}
