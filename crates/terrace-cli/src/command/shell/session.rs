//! Session of `terrace shell`: the table of its commands, and the open transaction.

use std::io::Write;

use data_encoding::HEXLOWER;
use terrace::{Db, ReadOptions, Savepoint, Transaction, TransactionOptions, WriteOptions};

use super::words;
use crate::condition::Condition;
use crate::entry_format::Format;
use crate::escape::Escaped;
use crate::failure::{CommandResult, Failure};
use crate::key_args::KeyEncodingArgs;
use crate::terminal;

/// Output of a command.
type Output<'a> = &'a mut dyn Write;

/// Command of the shell. `arguments` names the required ones, and optional ones in brackets.
struct ShellCommand {
    name: &'static str,
    arguments: &'static [&'static str],
    about: &'static str,
    run: fn(&mut Session, &[Vec<u8>], Output<'_>) -> CommandResult,
}

/// All commands, in the order of the help.
static COMMANDS: &[ShellCommand] = &[
    ShellCommand { name: "get", arguments: &["KEY"], about: "Print the value of a key", run: Session::get },
    ShellCommand { name: "put", arguments: &["KEY", "VALUE"], about: "Set a value", run: Session::put },
    ShellCommand { name: "delete", arguments: &["KEY"], about: "Delete a key", run: Session::delete },
    ShellCommand {
        name: "scan",
        arguments: &["[PREFIX]", "[LIMIT]"],
        about: "Print entries in key order",
        run: Session::scan,
    },
    ShellCommand {
        name: "check",
        arguments: &["KEY", "[VALUE]"],
        about: "Fail unless the key has the value, or does not exist",
        run: Session::check,
    },
    ShellCommand {
        name: "begin",
        arguments: &[],
        about: "Begin a transaction: reads of one state, writes together",
        run: Session::begin,
    },
    ShellCommand { name: "commit", arguments: &[], about: "Write the transaction", run: Session::commit },
    ShellCommand {
        name: "savepoint",
        arguments: &["NAME"],
        about: "Mark this moment of the transaction",
        run: Session::savepoint,
    },
    ShellCommand {
        name: "rollback",
        arguments: &["[NAME]"],
        about: "Undo the writes since a savepoint, or end the transaction without them",
        run: Session::rollback,
    },
    ShellCommand { name: "help", arguments: &[], about: "Print this list", run: Session::help },
    ShellCommand { name: "quit", arguments: &[], about: "End the shell", run: Session::quit },
];

/// State between two lines.
pub(super) struct Session {
    db: Db,
    encoding: KeyEncodingArgs,
    write_options: WriteOptions,
    transaction: Option<Transaction>,
    savepoints: Vec<(Vec<u8>, Savepoint)>,
    has_ended: bool,
}

impl Session {
    pub(super) fn new(db: Db, encoding: KeyEncodingArgs, write_options: WriteOptions) -> Session {
        Session { db, encoding, write_options, transaction: None, savepoints: Vec::new(), has_ended: false }
    }

    /// Returns true after the command `quit`.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn has_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Executes the command of `line`.
    pub(super) fn execute(&mut self, line: &[u8], out: Output<'_>) -> CommandResult {
        let mut words = words::split(line).map_err(Failure::Usage)?;
        if words.is_empty() {
            return Ok(());
        }
        let name = words.remove(0);
        let Some(command) = COMMANDS.iter().find(|command| command.name.as_bytes() == name) else {
            return Err(Failure::Usage(format!("no command '{}'; help lists all", Escaped(&name))));
        };
        let required = command.arguments.iter().filter(|argument| !argument.starts_with('[')).count();
        if !(required..=command.arguments.len()).contains(&words.len()) {
            return Err(Failure::Usage(format!("expected {}", command.usage())));
        }
        (command.run)(self, &words, out)
    }

    fn decode(&self, word: &[u8]) -> Result<Vec<u8>, Failure> {
        self.encoding.decode_bytes(word)
    }

    fn value_of(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(match &mut self.transaction {
            Some(transaction) => transaction.get(key)?,
            None => self.db.get(key)?,
        })
    }

    fn get(&mut self, words: &[Vec<u8>], out: Output<'_>) -> CommandResult {
        let key = self.decode(&words[0])?;
        match self.value_of(&key)? {
            Some(value) if self.encoding.hex => writeln!(out, "{}", HEXLOWER.encode(&value))?,
            Some(value) => writeln!(out, "{}", Escaped(&value))?,
            None => terminal::note(format_args!("no key '{}'", Escaped(&key))),
        }
        Ok(())
    }

    fn put(&mut self, words: &[Vec<u8>], _: Output<'_>) -> CommandResult {
        let key = self.decode(&words[0])?;
        let value = self.decode(&words[1])?;
        match &mut self.transaction {
            Some(transaction) => transaction.put(key, value)?,
            None => self.db.put_with(key, value, &self.write_options)?,
        }
        Ok(())
    }

    fn delete(&mut self, words: &[Vec<u8>], _: Output<'_>) -> CommandResult {
        let key = self.decode(&words[0])?;
        match &mut self.transaction {
            Some(transaction) => transaction.delete(key)?,
            None => self.db.delete_with(key, &self.write_options)?,
        }
        Ok(())
    }

    fn scan(&mut self, words: &[Vec<u8>], mut out: Output<'_>) -> CommandResult {
        let mut options = ReadOptions::default();
        if let Some(prefix) = words.first() {
            options.prefix = Some(self.decode(prefix)?);
        }
        let limit = words.get(1).map_or(Ok(usize::MAX), |word| parse_limit(word))?;
        let format = Format::for_output(None, self.encoding.hex);
        // An iterator of either kind. A scan of a terminal is short, so the box costs nothing.
        let entries: Box<dyn Iterator<Item = terrace::Result<_>>> = match &mut self.transaction {
            Some(transaction) => Box::new(transaction.iter_with(&options)?),
            None => Box::new(self.db.iter_with(&options)),
        };
        for entry in entries.take(limit) {
            let (key, value) = entry?;
            format.write(&mut out, &key, Some(&value))?;
        }
        Ok(())
    }

    fn check(&mut self, words: &[Vec<u8>], _: Output<'_>) -> CommandResult {
        let key = self.decode(&words[0])?;
        let condition = match words.get(1) {
            Some(value) => Condition::Value(self.decode(value)?),
            None => Condition::Absent,
        };
        let found = self.value_of(&key)?;
        condition.check(&key, found.as_deref())
    }

    fn begin(&mut self, _: &[Vec<u8>], _: Output<'_>) -> CommandResult {
        if self.transaction.is_some() {
            return Err(Failure::Usage("a transaction is open: commit it or roll it back first".into()));
        }
        let options = TransactionOptions::default().sync(self.write_options.sync);
        self.transaction = Some(self.db.begin(&options));
        Ok(())
    }

    fn open_transaction(&mut self) -> Result<&mut Transaction, Failure> {
        self.transaction.as_mut().ok_or_else(no_transaction)
    }

    fn commit(&mut self, _: &[Vec<u8>], _: Output<'_>) -> CommandResult {
        self.savepoints.clear();
        self.transaction.take().ok_or_else(no_transaction)?.commit()?;
        Ok(())
    }

    fn savepoint(&mut self, words: &[Vec<u8>], _: Output<'_>) -> CommandResult {
        let savepoint = self.open_transaction()?.savepoint();
        self.savepoints.push((words[0].clone(), savepoint));
        Ok(())
    }

    fn rollback(&mut self, words: &[Vec<u8>], _: Output<'_>) -> CommandResult {
        let Some(name) = words.first() else {
            self.savepoints.clear();
            return self.transaction.take().map(Transaction::rollback).ok_or_else(no_transaction);
        };
        // As in SQL, the last savepoint of a name hides earlier ones.
        let Some(index) = self.savepoints.iter().rposition(|(known, _)| known == name) else {
            return Err(Failure::Usage(format!("no savepoint '{}'", Escaped(name))));
        };
        let savepoint = self.savepoints[index].1;
        self.savepoints.truncate(index + 1);
        Ok(self.open_transaction()?.rollback_to(savepoint)?)
    }

    fn help(&mut self, _: &[Vec<u8>], out: Output<'_>) -> CommandResult {
        for command in COMMANDS {
            writeln!(out, "  {:<24}{}", command.usage(), command.about)?;
        }
        Ok(())
    }

    fn quit(&mut self, _: &[Vec<u8>], _: Output<'_>) -> CommandResult {
        self.has_ended = true;
        Ok(())
    }
}

impl ShellCommand {
    fn usage(&self) -> String {
        std::iter::once(&self.name).chain(self.arguments).copied().collect::<Vec<_>>().join(" ")
    }
}

fn no_transaction() -> Failure {
    Failure::Usage("no transaction is open: begin starts one".into())
}

fn parse_limit(word: &[u8]) -> Result<usize, Failure> {
    let limit = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    limit.ok_or_else(|| Failure::Usage(format!("'{}': expected a number of entries", Escaped(word))))
}
