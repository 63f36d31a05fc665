//! Scripts of all clients, by the SHA-1 of their text.

use std::collections::HashMap;
use std::sync::Arc;

use mlua::Compiler;

use super::nul_bytes::escape_nul_bytes;
use super::sha1::sha1_hex;

/// SHA-1 in lower-case hexadecimal digits.
pub(crate) type Sha1Hex = [u8; 40];

/// Maximum size of a script, in bytes. The compiler needs many times that memory.
const MAX_SCRIPT: usize = 1 << 20;
/// Maximum size of all scripts with their bytecode, in bytes.
const MAX_SCRIPTS: usize = 64 << 20;

/// Compiled script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) sha: Sha1Hex,
    /// Bytecode of the interpreter. The compiler of this process made it.
    pub(super) bytecode: Vec<u8>,
    /// True if the script states its flags in a first line `#!lua`.
    pub(crate) has_flags: bool,
    /// True with the flag `no-writes`.
    pub(crate) is_read_only: bool,
    size: usize,
}

/// Reason why a script is refused: the text of an error reply.
pub(crate) type CompileError = String;

impl Script {
    fn compile(text: &[u8], sha: Sha1Hex) -> Result<Script, CompileError> {
        if text.len() > MAX_SCRIPT {
            return Err(format!("ERR the script has {} bytes, more than {MAX_SCRIPT}", text.len()));
        }
        let (flags, body) = split_flags(text)?;
        let compiler = Compiler::new().set_mutable_globals(["KEYS", "ARGV", "_G"]);
        let body = escape_nul_bytes(&body).map_err(|fault| compile_error(&fault))?;
        let bytecode = compiler.compile(&*body).map_err(|error| compile_error(&message(error)))?;
        Ok(Script {
            sha,
            size: text.len() + bytecode.len(),
            bytecode,
            has_flags: flags.is_some(),
            is_read_only: flags.is_some_and(|flags| flags.is_read_only),
        })
    }
}

fn message(error: mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message,
        other => other.to_string(),
    }
}

fn compile_error(message: &str) -> CompileError {
    let message = message.trim_start_matches(':');
    format!("ERR Error compiling script (new function): user_script:{message}")
}

/// Flags of the first line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct ScriptFlags {
    is_read_only: bool,
}

/// Names of the flags. The server has no memory limit, no stale data and no cluster.
static FLAGS: &[&str] = &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// Separates the first line `#!lua flags=..` from the script. An empty line takes its place, so
/// that the lines keep their numbers.
fn split_flags(text: &[u8]) -> Result<(Option<ScriptFlags>, Vec<u8>), CompileError> {
    if !text.starts_with(b"#!") {
        return Ok((None, text.to_vec()));
    }
    let end = memchr::memchr(b'\n', text).ok_or("ERR Invalid script shebang")?;
    let line = String::from_utf8_lossy(&text[..end]).into_owned();
    let mut words = line.split_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
    }
    let mut flags = ScriptFlags::default();
    for word in words {
        let names =
            word.strip_prefix("flags=").ok_or_else(|| format!("ERR Unknown lua shebang option: {word}"))?;
        // Redis splits no text into no names.
        for name in names.split(',').filter(|_| !names.is_empty()) {
            if !FLAGS.contains(&name) {
                return Err(format!("ERR Unexpected flag in script shebang: {name}"));
            }
            flags.is_read_only |= name == "no-writes";
        }
    }
    Ok((Some(flags), text[end..].to_vec()))
}

/// All scripts.
#[derive(Debug, Default)]
pub(crate) struct ScriptCache {
    scripts: HashMap<Sha1Hex, Arc<Script>>,
    /// Size of all scripts, in bytes.
    size: usize,
}

impl ScriptCache {
    /// Returns the script with the hash `sha`, in any case of its digits.
    pub(crate) fn get(&self, sha: &[u8]) -> Option<Arc<Script>> {
        let sha: Sha1Hex = sha.to_ascii_lowercase().try_into().ok()?;
        self.scripts.get(&sha).cloned()
    }

    /// Returns the script with the text `text`, and compiles it if it is new.
    ///
    /// # Errors
    ///
    /// The script does not compile, or it is too large.
    pub(crate) fn insert(&mut self, text: &[u8]) -> Result<Arc<Script>, CompileError> {
        let sha = sha1_hex(text);
        if let Some(script) = self.scripts.get(&sha) {
            return Ok(Arc::clone(script));
        }
        let script = Arc::new(Script::compile(text, sha)?);
        if self.size + script.size > MAX_SCRIPTS {
            return Err("ERR the scripts of all clients exceed 64 MiB, SCRIPT FLUSH deletes them".into());
        }
        self.size += script.size;
        self.scripts.insert(sha, Arc::clone(&script));
        Ok(script)
    }

    /// Number of scripts.
    pub(crate) fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Deletes all scripts.
    pub(crate) fn clear(&mut self) {
        *self = ScriptCache::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<bool, &str>) {
        let mut cache = ScriptCache::default();
        let found = cache.insert(text.as_bytes());
        assert_eq!(found.map(|script| script.is_read_only), expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn flags_of_the_first_line() {
        check("return 1", Ok(false));
        check("#!lua\nreturn 1", Ok(false));
        check("#!lua flags=allow-oom,no-writes\nreturn 1", Ok(true));
        check("#!lua flags=\nreturn 1", Ok(false));
        check("#!lua flags=,\nreturn 1", Err("ERR Unexpected flag in script shebang: "));
        check("#!lua", Err("ERR Invalid script shebang"));
        check("#!js\nreturn 1", Err("ERR Unexpected engine in script shebang: #!js"));
        check("#!lua name=a\nreturn 1", Err("ERR Unknown lua shebang option: name=a"));
        check("#!lua flags=x\nreturn 1", Err("ERR Unexpected flag in script shebang: x"));
    }

    #[test]
    fn scripts_by_hash() {
        let mut cache = ScriptCache::default();
        let script = cache.insert(b"return 1").unwrap();
        assert_eq!(&script.sha, b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert!(cache.get(b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB").is_some());
        assert!(cache.get(b"e0e1").is_none());
        cache.clear();
        assert!(cache.get(&script.sha).is_none());
        assert!(
            cache
                .insert(b"return +")
                .unwrap_err()
                .starts_with("ERR Error compiling script (new function): user_script:1")
        );
        assert!(cache.insert(&vec![b' '; MAX_SCRIPT + 1]).is_err());
    }
}
