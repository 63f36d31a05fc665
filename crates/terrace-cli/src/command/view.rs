//! `terrace view`: shows a database in the browser, without a server for clients.

use std::io::Write;

use clap::Args;
use terrace_server::{Addresses, IfBusy, PageConfig, ServeError, ServerConfig, serve};

use super::serve::{PAGE_PORT, announce_page, failure, warn_of_damage};
use crate::cli::Run;
use crate::database::{DatabaseArgs, MemoryArgs, PathContents};
use crate::failure::CommandResult;
use crate::terminal;

/// Show a database in the browser, and change nothing
///
/// Works for the database of any program, also while the program writes it: the page follows the
/// changes. The command takes no lock. It prints a link, which works once. SIGTERM and Ctrl-C end
/// the command.
#[derive(Args)]
pub(crate) struct View {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Port of the web page on 127.0.0.1; 0 for a free one [default: 8379, otherwise a free one]
    #[arg(long, value_name = "PORT")]
    page_port: Option<u16>,
    /// Name of the host under which a proxy serves the web page
    #[arg(long, value_name = "NAME")]
    page_host: Option<String>,
    #[command(flatten)]
    memory: MemoryArgs,
}

impl Run for View {
    fn run(self) -> CommandResult {
        let mut config = ServerConfig::new(&self.database.dir);
        config.engine = self.memory.apply_to(self.database.options_for_reading());
        match PathContents::inspect(&config.engine, &config.dir)? {
            PathContents::Database => {}
            other => return other.not_a_database(&config.dir, ""),
        }
        config.port = None;
        config.read_only = true;
        config.is_program = true;
        config.page = Some(PageConfig {
            port: self.page_port.unwrap_or(PAGE_PORT),
            if_busy: if self.page_port.is_some() { IfBusy::Fail } else { IfBusy::FreePort },
            host: self.page_host,
            writes: false,
        });
        // A follower takes no lock, so that other programs can open the database meanwhile.
        config.follow = true;
        let mut was_ready = false;
        let followed = serve(&config, |addresses, _handle| {
            was_ready = true;
            announce(addresses);
        });
        if was_ready || !matches!(followed, Err(ServeError::Database(_))) {
            return followed.map_err(failure);
        }
        // A follower shows no damaged database. A read-only open shows what is readable.
        config.follow = false;
        serve(&config, |addresses, _handle| announce(addresses)).map_err(failure)
    }
}

fn announce(addresses: &Addresses) {
    warn_of_damage(addresses);
    let mut out = terminal::output();
    announce_page(addresses, &mut out);
    // The page works without a reader of the output.
    let _ = out.flush();
}
