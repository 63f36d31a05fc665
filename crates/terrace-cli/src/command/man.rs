//! `terrace man`: manual pages, with the sections and the order that `man-pages(7)` recommends.
#![allow(clippy::disallowed_methods, reason = "saves files where the user asks")]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, ValueHint};

use crate::cli::{self, COMMANDS, Run};
use crate::database::check_directory;
use crate::failure::{CommandResult, EXIT_CODES, Failure};
use crate::terminal;

/// Print the manual, with exit codes, of the program or of a command
#[derive(Args)]
pub(crate) struct Man {
    /// Command that the page describes
    #[arg(value_parser = PossibleValuesParser::new(COMMANDS.iter().map(|row| row.name)))]
    command: Option<String>,
    /// Write all pages to files of this directory instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    dir: Option<PathBuf>,
}

impl Run for Man {
    fn run(self) -> CommandResult {
        // `help` has no page. The heading is that of the list of commands.
        let program = cli::command_line().disable_help_subcommand(true);
        let mut program = program.subcommand_help_heading("COMMANDS");
        // Gives every command the full name that its page shows.
        program.build();
        if let Some(dir) = &self.dir {
            check_directory(dir, "the directory of the pages").map_err(Failure::File)?;
            let mut pages = program.get_subcommands().chain([&program]);
            return pages.try_for_each(|command| save_page(dir, command));
        }
        let command = self.command.as_deref().and_then(|name| program.find_subcommand(name).cloned());
        let mut out = terminal::output();
        match command {
            Some(command) => write_page(&mut out, &command)?,
            None => write_page(&mut out, &program)?,
        }
        Ok(out.flush()?)
    }
}

fn save_page(dir: &Path, command: &Command) -> CommandResult {
    let path = dir.join(format!("{}.1", command.get_display_name().unwrap_or("terrace")));
    let mut page = Vec::new();
    write_page(&mut page, command)?;
    fs::write(&path, page).map_err(|e| Failure::for_file(&path, e))
}

fn write_page(out: &mut impl Write, command: &Command) -> io::Result<()> {
    // The generator omits the text of arguments that the brief help omits.
    let page = clap_mangen::Man::new(command.clone().mut_args(|arg| arg.hide_short_help(false)));
    let name = command.get_display_name().unwrap_or("terrace");
    // Without a date, so that two builds of one version give the same page.
    writeln!(out, ".TH {name} 1 \"\" \"terrace {}\" \"Terrace Manual\"", env!("CARGO_PKG_VERSION"))?;
    page.render_name_section(out)?;
    write_synopsis(out, &page, command)?;
    page.render_description_section(out)?;
    let mut options = Vec::new();
    page.render_options_section(&mut options)?;
    out.write_all(with_subsections(&String::from_utf8_lossy(&options)).as_bytes())?;
    if command.has_subcommands() {
        page.render_subcommands_section(out)?;
    }
    write_exit_status(out)?;
    write_examples(out, command)?;
    write_see_also(out, command)
}

/// The usage of the program has several forms, which the generator does not know.
fn write_synopsis(out: &mut impl Write, page: &clap_mangen::Man, command: &Command) -> io::Result<()> {
    if !command.has_subcommands() {
        return page.render_synopsis_section(out);
    }
    out.write_all(b".SH SYNOPSIS\n\\fBterrace\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n")
}

/// Turns the headings of arguments into subsections of OPTIONS.
fn with_subsections(options: &str) -> String {
    let lines = options.lines().map(|line| match line.strip_prefix(".SH ") {
        Some(heading) if heading != "OPTIONS" => format!(".SS {heading}\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

fn write_exit_status(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, ".SH \"EXIT STATUS\"")?;
    EXIT_CODES.iter().try_for_each(|(code, meaning)| writeln!(out, ".TP\n{code}\n{meaning}"))
}

fn write_examples(out: &mut impl Write, command: &Command) -> io::Result<()> {
    writeln!(out, ".SH EXAMPLES\n.nf")?;
    // The page of the program has the examples of all commands.
    let rows = COMMANDS.iter().filter(|row| command.has_subcommands() || row.name == command.get_name());
    rows.map(|row| row.example.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq"))
        .try_for_each(|example| writeln!(out, "{example}"))?;
    writeln!(out, ".fi")
}

fn write_see_also(out: &mut impl Write, command: &Command) -> io::Result<()> {
    writeln!(out, ".SH \"SEE ALSO\"")?;
    if !command.has_subcommands() {
        return writeln!(out, "\\fBterrace\\fR(1)");
    }
    let pages: Vec<String> =
        COMMANDS.iter().map(|row| format!("\\fBterrace\\-{}\\fR(1)", row.name)).collect();
    writeln!(out, "{}", pages.join(",\n"))
}
