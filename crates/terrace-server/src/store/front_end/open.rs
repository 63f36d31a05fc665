//! Open of a store by a front end.

use std::sync::Arc;

use terrace_store::{KeyRange, OpenOptions, Store as SharedStore, StoreIterator};

use super::super::marker::{self, Spaces};

/// Open store with the records that every front end reads first.
pub(in crate::store) struct OpenedStore {
    pub(in crate::store) store: Arc<dyn SharedStore>,
    pub(in crate::store) spaces: Spaces,
}

/// Opens the store at `address`, and gives an empty one the typed layout.
///
/// # Errors
///
/// The store cannot be opened, or it has records of another program or of a later version.
pub(in crate::store) fn open(
    address: &str,
    create_if_missing: bool,
    is_read_only: bool,
) -> Result<OpenedStore, String> {
    let options = OpenOptions::default().create_if_missing(create_if_missing).read_only(is_read_only);
    let store = terrace_store::open(address, &options).map_err(|error| match error {
        terrace_store::Error::Missing(_) if !is_read_only => format!("{error}; --create creates one"),
        error => error.to_string(),
    })?;
    let spaces = load(&*store, is_read_only).map_err(|error| error.to_string())??;
    Ok(OpenedStore { store, spaces })
}

/// Checks the marker and returns the map of namespaces.
fn load(store: &dyn SharedStore, is_read_only: bool) -> terrace_store::Result<Result<Spaces, String>> {
    // Several front ends may start at the same time. One of them writes the marker.
    store.transact(&Default::default(), |transaction| {
        if let Some(marker) = transaction.get(marker::MARKER_KEY)? {
            let spaces = transaction.get(marker::SPACES_KEY)?;
            let spaces = spaces.as_deref().and_then(marker::decode_spaces);
            let checked = marker::check_marker(&marker);
            return Ok(checked.and_then(|_| spaces.ok_or("the map of the databases is damaged".into())));
        }
        let mut entries = transaction.iter(&KeyRange::all())?;
        entries.seek_to_first();
        entries.status()?;
        if entries.valid() {
            return Ok(Err("another program wrote the store, so it has no layout of Redis databases".into()));
        }
        if is_read_only {
            return Ok(Err("the store is empty, and the server is read-only".into()));
        }
        let spaces = marker::initial_spaces();
        transaction.put(marker::MARKER_KEY, &marker::encode_marker(true))?;
        transaction.put(marker::SPACES_KEY, &marker::encode_spaces(&spaces))?;
        Ok(Ok(spaces))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_of_stores() {
        let store = terrace_store::open("memory:", &OpenOptions::default()).unwrap();
        assert!(load(&*store, true).unwrap().unwrap_err().contains("read-only"));
        assert_eq!(load(&*store, false).unwrap(), Ok(marker::initial_spaces()));
        assert_eq!(load(&*store, true).unwrap(), Ok(marker::initial_spaces()));
        store.put(marker::MARKER_KEY, b"\0\x01\0\0abcd").unwrap();
        assert_eq!(load(&*store, false).unwrap(), Err("the marker of the typed layout is damaged".into()));
        store.delete(marker::MARKER_KEY).unwrap();
        assert!(load(&*store, false).unwrap().unwrap_err().contains("another program"));
    }
}
