//! Native part of the npm package `terrace-level`.
//!
//! ```text
//!   index.js ── hot calls: `hot` over `raw` ─────────────> answer at once, or "would wait"
//!           \── other calls: `tasks`, `open` (napi-rs) ──> thread of libuv's pool ──> promise
//!                                   |
//!        `handles`: numbers that stand for databases, snapshots, iterators and batches
//! ```
//!
//! JavaScript holds only numbers. A number that names nothing is an error, so that no argument can
//! lead to freed memory. The module makes no decision: JavaScript chooses between a hot call and a
//! task.

// napi-rs exports nothing in a test build, which only Clippy makes.
#![cfg_attr(test, allow(dead_code, unused_imports))]

mod error;
mod handles;
mod hot;
mod open;
mod raw;
mod scan;
mod tasks;

use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;

/// Adds the hot calls to the module, and closes the databases of this JavaScript environment when
/// it ends.
#[napi(module_exports)]
pub(crate) fn register(mut exports: Object<'_>, env: Env) -> napi::Result<()> {
    raw::export_all(&env, &mut exports, hot::FUNCTIONS)?;
    env.add_env_cleanup_hook((), |()| handles::close_all())?;
    Ok(())
}
