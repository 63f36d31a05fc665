//! goleveldb, a LevelDB in Go.

use super::format_reader::FormatReader;
use super::go_program::GoReader;

pub(super) fn find() -> Result<Box<dyn FormatReader>, String> {
    Ok(Box::new(GoReader::find("goleveldb")?))
}
