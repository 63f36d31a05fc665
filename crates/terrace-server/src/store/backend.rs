//! Place of the records of a server.
//!
//! ```text
//!   Database   directory of this machine; the server alone writes it
//!   Store      `terrace_store`; any number of front ends share it
//! ```

use std::sync::Arc;

use terrace::Db;
use terrace_store::Store as SharedStore;

/// Place of the records of a server.
pub(crate) enum Backend {
    Database(Db),
    Store(Arc<dyn SharedStore>),
}

impl Backend {
    /// Makes all acknowledged writes durable. A store has done so before it acknowledged them.
    ///
    /// # Errors
    ///
    /// The sync of the database failed.
    pub(crate) fn sync(&self) -> terrace::Result<()> {
        match self {
            Backend::Database(db) => db.sync(),
            Backend::Store(_) => Ok(()),
        }
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Backend::Database(db) => db.fmt(f),
            Backend::Store(_) => f.write_str("Store"),
        }
    }
}
