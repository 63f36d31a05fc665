//! `terrace view`: shows a database in the browser, without a server for clients.

use std::io::Write;

use clap::Args;
use terrace_server::{IfBusy, PageConfig, ServerConfig, serve};

use super::serve::{PAGE_PORT, announce_page, failure, warn_of_damage};
use crate::cli::Run;
use crate::database::{DamageArgs, DatabaseArgs, MemoryArgs};
use crate::failure::{CommandResult, Failure};
use crate::terminal;

/// Show a database in the browser, and change nothing
///
/// Works for the database of any program, also while the program writes it: the page then follows
/// the changes. Prints a link, which works once. SIGTERM and Ctrl-C end the command.
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
        config.port = None;
        config.read_only = true;
        config.is_program = true;
        config.follow = self.is_in_use()?;
        config.page = Some(PageConfig {
            port: self.page_port.unwrap_or(PAGE_PORT),
            if_busy: if self.page_port.is_some() { IfBusy::Fail } else { IfBusy::FreePort },
            host: self.page_host.clone(),
            writes: false,
        });
        let served = serve(&config, |addresses, _handle| {
            warn_of_damage(addresses);
            let mut out = terminal::output();
            announce_page(addresses, &mut out);
            // The page works without a reader of the output.
            let _ = out.flush();
        });
        served.map_err(failure)
    }
}

impl View {
    /// True if another process has the database open. Fails for a directory without a database.
    fn is_in_use(&self) -> Result<bool, Failure> {
        match self.database.open_with_damage(&DamageArgs::default()) {
            Ok(db) => {
                db.close()?;
                Ok(false)
            }
            Err(Failure::Locked(_)) => Ok(true),
            Err(failure) => Err(failure),
        }
    }
}
