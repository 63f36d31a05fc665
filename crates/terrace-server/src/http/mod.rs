//! HTTP listeners on the loopback address: the web page, and `GET /metrics`.
//!
//! ```text
//!   bind ── run ── connection with limits ── respond
//! ```

mod host;
mod listener;
mod response;

pub(crate) use host::{is_own_host, single_header};
pub(crate) use listener::{bind, run};
pub(crate) use response::{HttpBody, HttpResponse, bytes_response, response, status_response};
