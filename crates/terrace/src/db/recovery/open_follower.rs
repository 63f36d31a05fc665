//! Opening a database beside its writer.

use std::path::Path;
use std::time::Duration;

use terrace_format::filename::FileName;
use terrace_format::key::InternalComparator;

use super::directory_checks::{manifest_error, missing_database_error};
use super::open::DbOpener;
use crate::db::components::follower_tail::FollowerTail;
use crate::db::inner::DbInner;
use crate::error::Result;
use crate::info_log::NoLogger;
use crate::options::Options;
use crate::sync::{Arc, AtomicU64};
use crate::version::{Manifest, ManifestRecovery, ManifestTail};

impl DbInner {
    /// Opens for reads beside a writer, without a lock. The state is empty before the first
    /// catch-up.
    pub(in crate::db) fn open_follower(
        directory: &Path,
        options: &Options,
        every: Duration,
    ) -> Result<Arc<DbInner>> {
        let options = options.sanitized();
        let env = &options.env;
        if !env.fs.exists(&directory.join(FileName::Current.to_string()))? {
            return Err(missing_database_error(directory));
        }
        let comparator = InternalComparator::new(Arc::clone(&options.comparator));
        let manifest_tail = ManifestTail::open(env, directory, &comparator)
            .map_err(|error| manifest_error(env, directory, error))?;
        let tail = FollowerTail::new(env, directory, manifest_tail);
        let logger = options.logger.clone().unwrap_or_else(|| Arc::new(NoLogger));
        let empty = ManifestRecovery::for_new_database(&comparator);
        let mut opener = DbOpener::new(directory, &options, comparator, logger, empty);
        opener.follower = Some((every, Box::new(tail)));
        let memtable = opener.new_memtable();
        let manifest = Manifest::new(env, directory, 0);
        Ok(opener.into_inner(memtable, Vec::new(), AtomicU64::new(0), manifest, None, None))
    }
}
