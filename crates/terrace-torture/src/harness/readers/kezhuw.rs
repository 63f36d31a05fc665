//! kezhuw/leveldb, another LevelDB in Go.
//!
//! The module proxy of Go refuses every version of the module, so no pinned build is possible.
//! `docs/design/0010-readers-of-the-format.md` lists the behaviour that its sources imply.

use super::format_reader::FormatReader;

pub(super) fn find() -> Result<Box<dyn FormatReader>, String> {
    Err("the module proxy of Go has no version of github.com/kezhuw/leveldb".into())
}
