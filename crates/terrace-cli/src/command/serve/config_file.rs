//! Configuration file of the server, in TOML. Each key is the name of an option.
//!
//! ```text
//!   file   port = 7000                  -> --port=7000
//!          [[user]] name = "bob" ..     -> --user="bob .."
//!   words of the file, then those of the command line -> the parser of the command line
//! ```
//!
//! Therefore the file and the command line have the same keys, bounds and messages.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use terrace_env::{Env, SequentialFile};
use toml::Value;

use super::Serve;
use crate::failure::{CommandResult, Failure};
use crate::terminal;

/// Maximum size of a file, in bytes.
const MAX_FILE: usize = 1 << 20;
/// Options that are no keys.
static NO_KEYS: &[&str] = &["config", "print-config", "hash-password", "help", "help-all"];

/// Returns the words after `serve`.
pub(super) fn own_args(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    args.skip_while(|word| word != "serve").skip(1).collect()
}

fn command() -> Command {
    let command = Serve::augment_args(Command::new("serve").no_binary_name(true));
    command.mut_args(|arg| {
        let takes_value = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_value)
    })
}

/// Keys of a file: the options with their names.
fn keys(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let named = command.get_arguments().map(|arg| match arg.get_long() {
        Some(long) => (long, arg),
        None => (arg.get_id().as_str(), arg),
    });
    named.filter(|(name, _)| !NO_KEYS.contains(name))
}

/// Parses the file `path` and the words of the command line.
pub(super) fn load(path: &Path, own_args: Vec<OsString>) -> Result<Serve, Failure> {
    let matches = merge(Some(path), own_args)?;
    Serve::from_arg_matches(&matches).map_err(|error| Failure::Usage(first_line(&error)))
}

fn merge(path: Option<&Path>, own_args: Vec<OsString>) -> Result<ArgMatches, Failure> {
    let parse = |args: Vec<OsString>| command().try_get_matches_from(args);
    let own = parse(own_args.clone()).map_err(|error| Failure::Usage(first_line(&error)))?;
    let Some(path) = path else { return Ok(own) };
    let wrong = |reason: String| Failure::Usage(format!("{}: {reason}", path.display()));
    let text = read(path)?;
    let table: toml::Table = text.parse().map_err(|error| syntax_error(path, &text, &error))?;
    let mut words = file_words(&table, &own).map_err(wrong)?;
    words.extend(own_args);
    parse(words).map_err(|error| wrong(first_line(&error)))
}

/// Failure that names the line of `text` which is not TOML.
fn syntax_error(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let start = error.span().map_or(0, |span| span.start);
    let line = 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count();
    let reason: Vec<&str> = error.message().lines().collect();
    Failure::Usage(format!("{}:{line}: {}", path.display(), reason.join(", ")))
}

/// Words for the keys of the file that the command line does not have.
fn file_words(table: &toml::Table, own: &ArgMatches) -> Result<Vec<OsString>, String> {
    let command = command();
    let mut words = Vec::new();
    let mut positional = Vec::new();
    for (key, value) in table {
        let known = keys(&command).find(|(name, _)| name == key);
        let (name, arg) = known.ok_or_else(|| format!("unknown key \"{key}\""))?;
        if own.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
            continue;
        }
        let is_list = matches!(arg.get_action(), clap::ArgAction::Append);
        if !arg.get_action().takes_values() {
            let is_on = value.as_bool().ok_or_else(|| format!("key \"{key}\": expected true or false"))?;
            words.extend(is_on.then(|| OsString::from(format!("--{name}"))));
        } else if arg.get_long().is_none() {
            positional.push(scalar(key, value)?.into());
        } else {
            for text in texts(key, value, is_list)? {
                words.push(format!("--{name}={text}").into());
            }
        }
    }
    words.extend(positional);
    Ok(words)
}

/// Texts of the values of a key.
fn texts(key: &str, value: &Value, is_list: bool) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) if is_list => items.iter().map(|item| item_text(key, item)).collect(),
        value => Ok(vec![scalar(key, value)?]),
    }
}

fn item_text(key: &str, item: &Value) -> Result<String, String> {
    match item {
        Value::Table(fields) if key == "user" => user_text(fields),
        item => scalar(key, item),
    }
}

fn scalar(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        _ => Err(format!("key \"{key}\": expected a text or an integer")),
    }
}

/// Text of a table `[[user]]`, as the option `--user` has it.
fn user_text(fields: &toml::Table) -> Result<String, String> {
    let mut text = String::new();
    let mut words = Vec::new();
    for (field, value) in fields {
        let items = match (field.as_str(), value) {
            ("name" | "role" | "hash", value) => vec![scalar(field, value)?],
            ("prefixes" | "categories", Value::Array(items)) => {
                items.iter().map(|item| scalar(field, item)).collect::<Result<_, _>>()?
            }
            _ => return Err(format!("key \"user\": unknown field \"{field}\", or not a list")),
        };
        for item in items {
            if item.contains(char::is_whitespace) {
                return Err(format!("key \"user\": field \"{field}\" has a space"));
            }
            match field.as_str() {
                "name" => text = item,
                "prefixes" => words.push(format!("prefix={item}")),
                "categories" => words.push(format!("category={item}")),
                field => words.push(format!("{field}={item}")),
            }
        }
    }
    for word in words {
        // Writing to a string succeeds.
        let _ = write!(text, " {word}");
    }
    Ok(text)
}

/// Text of the error in one line, without its label and its advice.
fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// Reads a small file.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |reason: String| Failure::for_file(path, reason);
    let file = Env::default().fs.open_sequential(path).map_err(|error| Failure::File(error.to_string()))?;
    let mut text = String::new();
    let limit = MAX_FILE as u64 + 1;
    let read = FileReader(file).take(limit).read_to_string(&mut text);
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => wrong("not UTF-8".into()),
        _ => wrong(error.to_string()),
    })?;
    if text.len() > MAX_FILE {
        return Err(wrong("more than 1 MiB, expected a configuration".into()));
    }
    Ok(text)
}

/// File of the environment as a reader of the standard library.
struct FileReader(Box<dyn SequentialFile>);

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer).map_err(std::io::Error::other)
    }
}

/// Prints the configuration. The output is a file for `--config`.
pub(super) fn print(path: Option<&Path>, own_args: Vec<OsString>) -> CommandResult {
    let matches = merge(path, own_args)?;
    let command = command();
    let mut text =
        String::from("# Configuration of `terrace serve --config FILE`. An option overrides its key.\n");
    for (name, arg) in keys(&command) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        text += "\n";
        for line in help.lines() {
            text += &format!("# {line}\n");
        }
        text += &format!("{}\n", line_of(name, arg, &matches));
    }
    let mut out = terminal::output();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Line of a key with its value. A key without a value is a comment.
fn line_of(name: &str, arg: &Arg, matches: &ArgMatches) -> String {
    let id = arg.get_id().as_str();
    if !arg.get_action().takes_values() {
        return format!("{name} = {}", matches.get_flag(id));
    }
    let values = matches.get_raw(id).into_iter().flatten();
    let values: Vec<String> = values.map(|value| quoted(&value.to_string_lossy())).collect();
    match (values.as_slice(), arg.get_action()) {
        ([], clap::ArgAction::Append) => format!("# {name} = []"),
        ([], _) => format!("# {name} ="),
        (values, clap::ArgAction::Append) => format!("{name} = [{}]", values.join(", ")),
        (values, _) => format!("{name} = {}", values[0]),
    }
}

/// Value as TOML: an integer, or a text in quotes.
fn quoted(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(number) if number.to_string() == value && number <= i64::MAX as u64 => value.to_owned(),
        _ => serde_json::Value::String(value.to_owned()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, own: &[&str]) -> Result<Vec<String>, String> {
        let own: Vec<OsString> = own.iter().map(OsString::from).collect();
        let own = command().try_get_matches_from([&["db".into()], &own[..]].concat()).unwrap();
        let words = file_words(&text.parse().unwrap(), &own)?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn words_of_a_file() {
        for (text, own, expected) in [
            ("port = 7000", &[][..], &["--port=7000"][..]),
            ("port = 7000", &["--port", "1"], &[]),
            ("read-only = true\nno-tcp = false", &[], &["--read-only"]),
            ("bind = [\"::1\", \"127.0.0.1\"]", &[], &["--bind=::1", "--bind=127.0.0.1"]),
            ("requirepass = \"a b\"", &[], &["--requirepass=a b"]),
            (
                "[[user]]\nname = \"bob\"\nrole = \"read\"\nhash = \"h\"\nprefixes = [\"a:\", \"b:\"]",
                &[],
                &["--user=bob hash=h prefix=a: prefix=b: role=read"],
            ),
        ] {
            assert_eq!(words(text, own).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn wrong_keys() {
        for (text, expected) in [
            ("prot = 1", "unknown key \"prot\""),
            ("config = \"x\"", "unknown key \"config\""),
            ("read-only = 1", "key \"read-only\": expected true or false"),
            ("port = [1]", "key \"port\": expected a text or an integer"),
            ("port = 1.5", "key \"port\": expected a text or an integer"),
            ("[[user]]\nnmae = \"x\"", "key \"user\": unknown field \"nmae\", or not a list"),
            ("[[user]]\nname = \"a role=admin\"", "key \"user\": field \"name\" has a space"),
        ] {
            assert_eq!(words(text, &[]), Err(expected.into()), "{text}");
        }
    }
}
