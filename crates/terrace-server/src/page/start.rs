//! Start of the page: its listener before the open of the database, its threads after it.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::{Page, PageAccess, run, sampler};
use crate::config::{IfBusy, PageConfig, ServeError, ServerConfig};
use crate::http;
use crate::shared::Shared;
use crate::store::Backend;
use crate::threads;

/// Listener of the page, if the server has one.
pub(crate) struct BoundPage {
    listener: Option<TcpListener>,
    pub(crate) access: Option<Arc<PageAccess>>,
    /// Port that is in use, so that the server runs without a page.
    pub(crate) busy_port: Option<u16>,
    has_writes: bool,
}

/// Binds the listener of the page.
pub(crate) fn bind(config: &ServerConfig) -> Result<BoundPage, ServeError> {
    let mut bound = BoundPage { listener: None, access: None, busy_port: None, has_writes: false };
    let Some(page) = &config.page else { return Ok(bound) };
    bound.listener = bind_port(page)?;
    match &bound.listener {
        Some(listener) => {
            let access = PageAccess::new(listener.local_addr()?, page.host.clone());
            bound.access = Some(Arc::new(access));
            bound.has_writes = page.writes;
        }
        None => bound.busy_port = Some(page.port),
    }
    Ok(bound)
}

/// Binds the port of the page, or another one. None if the server runs without a page.
fn bind_port(page: &PageConfig) -> Result<Option<TcpListener>, ServeError> {
    let failed = |error| ServeError::Listen(format!("127.0.0.1:{} for the page", page.port), error);
    match http::bind(page.port) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match page.if_busy {
            IfBusy::Fail => Err(failed(error)),
            IfBusy::NoPage => Ok(None),
            IfBusy::FreePort => http::bind(0).map(Some).map_err(failed),
        },
        bound => bound.map(Some).map_err(failed),
    }
}

/// Starts the threads of the page.
pub(crate) fn start(bound: BoundPage, shared: &Arc<Shared>) -> io::Result<Vec<JoinHandle<()>>> {
    let (Some(listener), Some(access)) = (bound.listener, bound.access) else { return Ok(Vec::new()) };
    let Backend::Database(db) = &shared.store.backend else { return Ok(Vec::new()) };
    let page = Arc::new(Page::new(Arc::clone(shared), db.clone(), access, bound.has_writes));
    let sampled = Arc::clone(&page);
    let sampler = threads::start("page-sampler", move || sampler::run(&sampled))?;
    let listener = threads::start("page", move || {
        // Without its runtime, the server runs without a page.
        let _ = run(&page, listener);
    })?;
    Ok(vec![sampler, listener])
}
