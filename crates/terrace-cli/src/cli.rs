//! The table of commands, and the command line that is built from it.
//!
//! A new command is one file under `command/` and one row of [`COMMANDS`]. Parsing, help,
//! completions and man pages follow from the row.
//!
//! `--help` fits on one screen. It leaves out the arguments for special cases: those below a
//! heading of their own. `--help-all` and the man page describe all of them.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::command;
use crate::failure::{CommandResult, EXIT_CODES, Failure};
use crate::terminal;

/// A command. Its fields are its arguments and its doc comment is its help.
pub(crate) trait Run: clap::Args {
    /// Executes the command.
    fn run(self) -> CommandResult;
}

/// Row of the command table.
pub(crate) struct CommandEntry {
    /// Name of the subcommand.
    pub(crate) name: &'static str,
    /// Example command line, printed at the end of the command's help.
    pub(crate) example: &'static str,
    arguments: fn(Command) -> Command,
    run: fn(&ArgMatches) -> CommandResult,
}

const fn command_entry<C: Run>(name: &'static str, example: &'static str) -> CommandEntry {
    CommandEntry { name, example, arguments: C::augment_args, run: parse_and_run::<C> }
}

fn parse_and_run<C: Run>(matches: &ArgMatches) -> CommandResult {
    C::from_arg_matches(matches).map_err(|e| Failure::Usage(e.to_string()))?.run()
}

/// All commands, in the order of the help.
pub(crate) static COMMANDS: &[CommandEntry] = &[
    command_entry::<command::get::Get>("get", r"terrace get cities 'CH/Zurich/Uster'"),
    command_entry::<command::put::Put>("put", r"terrace put cities 'CH/Zurich/Uster' 'two\tcolumns' --sync"),
    command_entry::<command::delete::Delete>("delete", r"terrace delete cities --hex 43482f00"),
    command_entry::<command::scan::Scan>("scan", "terrace scan cities --prefix CH/ --reverse --limit 10"),
    command_entry::<command::count::Count>("count", "terrace count cities --prefix CH/"),
    command_entry::<command::shell::Shell>("shell", "terrace shell cities < script"),
    command_entry::<command::load::Load>("load", "terrace load cities data/cities.tsv.zst --create"),
    command_entry::<command::dump::Dump>(
        "dump",
        "terrace dump cities --format jsonl | gzip > cities.jsonl.gz",
    ),
    command_entry::<command::stat::Stat>("stat", "terrace stat cities"),
    command_entry::<command::verify::Verify>("verify", "terrace verify cities"),
    command_entry::<command::repair::Repair>("repair", "terrace repair cities --dry-run"),
    command_entry::<command::compact::Compact>("compact", "terrace compact cities --from CH/ --to CI/"),
    command_entry::<command::convert::Convert>("convert", "terrace convert cities --compression zstd --yes"),
    command_entry::<command::checkpoint::Checkpoint>("checkpoint", "terrace checkpoint cities cities-monday"),
    command_entry::<command::backup::Backup>("backup", "terrace backup create backups cities"),
    command_entry::<command::restore::Restore>("restore", "terrace restore backups cities-restored"),
    #[cfg(feature = "store")]
    command_entry::<command::migrate::Migrate>(
        "migrate",
        "terrace migrate cities etcd://10.0.0.1,10.0.0.2/cities",
    ),
    command_entry::<command::destroy::Destroy>("destroy", "terrace destroy cities --yes"),
    #[cfg(feature = "server")]
    command_entry::<command::serve::Serve>("serve", "terrace serve cities --port 6379 --sync always"),
    #[cfg(feature = "server")]
    command_entry::<command::view::View>("view", "terrace view cities"),
    #[cfg(all(feature = "server", feature = "store"))]
    command_entry::<command::demo::Demo>("demo", "terrace demo cluster"),
    command_entry::<command::bench::Bench>(
        "bench",
        "terrace bench --suite leveldb --engines terrace,leveldb --scale 0.1",
    ),
    command_entry::<command::tour::Tour>("tour", "terrace tour data/cities.tsv.zst"),
    command_entry::<command::completions::Completions>("completions", "terrace completions zsh > _terrace"),
    command_entry::<command::man::Man>("man", "terrace man get | man -l -"),
];

/// Help of the program. The list of commands needs the whole screen, so there is no description.
const PROGRAM_HELP: &str = "{usage-heading} {usage}\n{subcommands}{after-help}";

/// Builds the complete command line parser.
pub(crate) fn command_line() -> Command {
    let root = Command::new("terrace")
        // Without it, usage messages have the name of the file: terrace.exe on Windows.
        .bin_name("terrace")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Ordered key-value databases in LevelDB's file format")
        .long_about(
            "Ordered key-value databases in LevelDB's file format.\n\n\
             Keys and values are written as text: \\t, \\n, \\\\ and \\xNN stand for a tab, a line feed, a backslash \
             and any other byte. Commands that only read do not write to any file.",
        )
        .override_usage("terrace COMMAND --help | --help-all | --version | completions SHELL")
        .help_template(PROGRAM_HELP)
        .after_long_help(exit_codes_help())
        .subcommand_required(true)
        // `help_words` replaces it: its row would not fit on the screen.
        .disable_help_subcommand(true)
        .arg_required_else_help(true)
        .max_term_width(100);
    let root = COMMANDS.iter().fold(with_help_flags(root), |root, row| root.subcommand(subcommand(row)));
    // The usage names it, so that the list fits on the screen.
    root.mut_subcommand("completions", |command| command.hide(true))
}

fn subcommand(row: &CommandEntry) -> Command {
    let command = with_help_flags((row.arguments)(Command::new(row.name)));
    let example = format!("Example: {}", row.example);
    let special = special_headings(&command);
    let more = if special.is_empty() { String::new() } else { format!("\nMore with --help-all: {special}") };
    let command = command.after_help(format!("{example}{more}")).after_long_help(example);
    command.mut_args(|arg| {
        let is_hidden = arg.is_hide_short_help_set() || arg.get_help_heading().is_some();
        let takes_value = arg.get_action().takes_values();
        // A negative number may be a key. For another argument, the argument's own parser rejects
        // it with a better message.
        arg.hide_short_help(is_hidden).allow_negative_numbers(takes_value)
    })
}

/// Headings of the arguments for special cases, without their remarks.
fn special_headings(command: &Command) -> String {
    let mut headings: Vec<&str> = Vec::new();
    for heading in command.get_arguments().filter_map(Arg::get_help_heading) {
        let heading = heading.split([';', ',']).next().unwrap_or(heading);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings.join(", ")
}

/// Adds the flags `--help` and `--help-all`.
fn with_help_flags(command: Command) -> Command {
    let short = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong);
    command
        .disable_help_flag(true)
        .next_help_heading(None)
        .arg(short.help("Print help"))
        .arg(all.help("Print help with all arguments and details"))
}

fn exit_codes_help() -> String {
    EXIT_CODES
        .iter()
        .fold(String::from("Exit codes:"), |text, (code, meaning)| format!("{text}\n  {code}  {meaning}"))
}

/// Replaces `help COMMAND` by `COMMAND --help`.
fn help_words(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = args.into_iter().collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Joins the paragraphs of a message of the parser: the error, its tips, and the usage.
fn one_line(message: &str) -> String {
    let message = message.strip_prefix("error: ").unwrap_or(message).trim_end();
    let paragraphs = message.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("; ")
}

/// Parses `args`, the first of which is the program's name, and executes the command.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> CommandResult {
    let matches = match command_line().try_get_matches_from(help_words(args)) {
        Ok(matches) => matches,
        Err(e) if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => e.exit(),
        Err(e) if e.use_stderr() => return Err(Failure::Usage(one_line(&e.render().to_string()))),
        // Help and version go to standard output, so a write error there is reported.
        Err(e) => {
            terminal::check_output()?;
            return Ok(e.print()?);
        }
    };
    match matches.subcommand() {
        Some((name, matches)) => {
            COMMANDS.iter().find(|row| row.name == name).map_or(Ok(()), |row| (row.run)(matches))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn every_example_parses() {
        for row in COMMANDS {
            let command = row.example.split(['|', '>', '<']).next().expect("a split has a first part");
            let args = command.split_whitespace().map(|word| word.trim_matches('\''));
            if let Err(error) = command_line().try_get_matches_from(args) {
                panic!("{}: {error}", row.example);
            }
        }
    }

    #[test]
    fn every_argument_has_help() {
        for row in COMMANDS {
            let mut command = subcommand(row);
            command.build();
            let help = command.render_long_help().to_string();
            assert!(command.get_about().is_some(), "{} has no help", row.name);
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{}: argument {} has no help", row.name, arg.get_id());
                let name =
                    arg.get_value_names().map_or(arg.get_id().to_string(), |names| names[0].to_string());
                let shown = arg.get_long().map_or(name.to_uppercase(), |long| format!("--{long}"));
                assert!(help.contains(&shown), "the help of {} lacks {shown}", row.name);
            }
        }
    }

    #[test]
    fn help_documents_every_exit_code() {
        let help = command_line().render_long_help().to_string();
        for (code, meaning) in EXIT_CODES {
            assert!(help.contains(&format!("{code}  {meaning}")), "exit code {code}");
        }
    }
}
