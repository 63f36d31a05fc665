//! Users: names, passwords, and the limits of their rights.
//!
//! ```text
//!   configuration   name, argon2id hash, role, key prefixes, categories
//!   AUTH            slow pool: verify(name, password) -> User, in a time that tells no names
//!   each command    permission.rs: role, categories, keys
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, Version};
use data_encoding::BASE64_NOPAD;
use subtle::ConstantTimeEq;
use terrace_sync::native_locks::Mutex;

/// Name of the user of clients that do not log in.
pub(crate) const DEFAULT_USER: &str = "default";
/// Parameters of new hashes: 19 MiB, two passes, one lane. OWASP recommends them.
const DEFAULT_PARAMS: (u32, u32, u32) = (19 << 10, 2, 1);
/// Maximum memory of a hash in the configuration, in KiB.
const MAX_MEMORY: u32 = 1 << 18;
/// Maximum number of passes and of lanes of a hash in the configuration.
const MAX_PASSES: u32 = 16;
/// Length of a salt, in bytes.
const SALT_LEN: usize = 16;
/// Length of a hash, in bytes.
const HASH_LEN: usize = 32;
/// Maximum number of denials in ACL LOG.
const MAX_DENIALS: usize = 128;

/// Rights of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Commands that change nothing.
    Read,
    /// All commands but those that administer the server.
    Write,
    /// All commands.
    Admin,
}

impl Role {
    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        }
    }

    /// Returns the role with the name `name`.
    pub fn by_name(name: &str) -> Option<Role> {
        [Role::Read, Role::Write, Role::Admin].into_iter().find(|role| role.name() == name)
    }
}

/// User of the configuration.
#[derive(Debug, Clone)]
pub struct UserConfig {
    /// Name for AUTH.
    pub name: String,
    /// Text of [`hash_password`].
    pub hash: String,
    /// Rights.
    pub role: Role,
    /// The user may access only keys that begin with one of them. Empty for all keys.
    pub prefixes: Vec<String>,
    /// The user may run only commands of these categories of ACL CAT. Empty for all commands.
    pub categories: Vec<String>,
}

impl UserConfig {
    /// Parses the words `name role=ROLE hash=HASH [prefix=PREFIX ..] [category=CATEGORY ..]`.
    ///
    /// # Errors
    ///
    /// The text names the word that is wrong or missing.
    pub fn parse(text: &str) -> Result<UserConfig, String> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or("a user without a name")?.to_owned();
        let mut user = UserConfig {
            name,
            hash: String::new(),
            role: Role::Read,
            prefixes: Vec::new(),
            categories: Vec::new(),
        };
        let mut has_role = false;
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "role" => {
                    has_role = true;
                    user.role = Role::by_name(value).ok_or_else(|| user.wrong("role", value))?;
                }
                "hash" => user.hash = value.to_owned(),
                "prefix" if !value.is_empty() => user.prefixes.push(value.to_owned()),
                "category" => user.categories.push(value.to_owned()),
                _ => return Err(user.wrong("word", word)),
            }
        }
        if !has_role {
            return Err(format!("user {}: role is missing, expected read, write or admin", user.name));
        }
        Ok(user)
    }

    fn wrong(&self, what: &str, found: &str) -> String {
        format!(
            "user {}: {what} \"{found}\", expected role=read|write|admin, hash=.., prefix=.. or category=..",
            self.name
        )
    }
}

/// Returns the argon2id hash of `password` for the configuration. `salt` is random.
///
/// # Errors
///
/// The password is longer than 4 GiB.
pub fn hash_password(password: &[u8], salt: [u8; 16]) -> Result<String, String> {
    let (memory, passes, lanes) = DEFAULT_PARAMS;
    let mut hash = PasswordHash { memory, passes, lanes, salt: salt.to_vec(), hash: vec![0; HASH_LEN] };
    hash.hash = hash.of(password).ok_or("the password cannot be hashed")?;
    Ok(hash.text())
}

/// Argon2id hash of a password.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PasswordHash {
    memory: u32,
    passes: u32,
    lanes: u32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl PasswordHash {
    /// Parses the text `$argon2id$v=19$m=..,t=..,p=..$salt$hash`.
    fn parse(text: &str) -> Option<PasswordHash> {
        let rest = text.strip_prefix("$argon2id$v=19$m=")?;
        let (memory, rest) = rest.split_once(",t=")?;
        let (passes, rest) = rest.split_once(",p=")?;
        let (lanes, rest) = rest.split_once('$')?;
        let (salt, hash) = rest.split_once('$')?;
        let number = |text: &str, max: u32| text.parse::<u32>().ok().filter(|n| (1..=max).contains(n));
        let hash = PasswordHash {
            memory: number(memory, MAX_MEMORY)?,
            passes: number(passes, MAX_PASSES)?,
            lanes: number(lanes, MAX_PASSES)?,
            salt: BASE64_NOPAD.decode(salt.as_bytes()).ok().filter(|salt| (8..=64).contains(&salt.len()))?,
            hash: BASE64_NOPAD.decode(hash.as_bytes()).ok().filter(|hash| (16..=64).contains(&hash.len()))?,
        };
        hash.params().map(|_| hash)
    }

    fn text(&self) -> String {
        let PasswordHash { memory, passes, lanes, salt, hash } = self;
        let salt = BASE64_NOPAD.encode(salt);
        let hash = BASE64_NOPAD.encode(hash);
        format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${hash}")
    }

    fn params(&self) -> Option<Params> {
        Params::new(self.memory, self.passes, self.lanes, Some(self.hash.len())).ok()
    }

    /// Hashes `password` with the parameters and the salt of this hash. Takes about 20 ms.
    fn of(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut found = vec![0; self.hash.len()];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params()?);
        argon2.hash_password_into(password, &self.salt, &mut found).ok()?;
        Some(found)
    }

    /// True if `password` has this hash. The time does not depend on the difference.
    fn is_of(&self, password: &[u8]) -> bool {
        self.of(password).is_some_and(|found| found.ct_eq(&self.hash).into())
    }
}

/// User of the running server.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    pub(crate) prefixes: Vec<Vec<u8>>,
    pub(crate) categories: Vec<String>,
    hash: Option<PasswordHash>,
}

impl User {
    /// True if the user may run all commands on all keys.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.role == Role::Admin && self.prefixes.is_empty() && self.categories.is_empty()
    }
}

/// Command that a user was not permitted to run, or a failed login.
#[derive(Debug, Clone)]
pub(crate) struct DenialEntry {
    pub(crate) reason: &'static str,
    pub(crate) object: Vec<u8>,
    pub(crate) user: String,
    pub(crate) client: String,
    /// Monotonic time.
    pub(crate) at: Duration,
    pub(crate) count: u64,
}

/// All users, and the last denials.
#[derive(Debug)]
pub(crate) struct Users {
    default: Arc<User>,
    rows: Vec<Arc<User>>,
    /// Hash that no password has, for names without a user.
    placeholder: PasswordHash,
    denials: Mutex<VecDeque<DenialEntry>>,
}

impl Users {
    /// Checks the users of the configuration. `is_category` knows the categories of commands.
    pub(crate) fn new(rows: &[UserConfig], is_category: impl Fn(&str) -> bool) -> Result<Users, String> {
        let mut users: Vec<Arc<User>> = Vec::new();
        for row in rows {
            let name = &row.name;
            let hash = PasswordHash::parse(&row.hash)
                .ok_or_else(|| format!("user {name}: hash is missing or not of --hash-password"))?;
            if let Some(unknown) = row.categories.iter().find(|category| !is_category(category)) {
                return Err(format!("user {name}: unknown category \"{unknown}\""));
            }
            if name == DEFAULT_USER || users.iter().any(|user| *user.name == **name) {
                return Err(format!("user {name}: the name is used already"));
            }
            users.push(Arc::new(User {
                name: name.as_str().into(),
                role: row.role,
                prefixes: row.prefixes.iter().map(|prefix| prefix.clone().into_bytes()).collect(),
                categories: row.categories.clone(),
                hash: Some(hash),
            }));
        }
        let (memory, passes, lanes) = DEFAULT_PARAMS;
        let default = User {
            name: DEFAULT_USER.into(),
            role: Role::Admin,
            prefixes: Vec::new(),
            categories: Vec::new(),
            hash: None,
        };
        Ok(Users {
            default: Arc::new(default),
            rows: users,
            placeholder: PasswordHash {
                memory,
                passes,
                lanes,
                salt: vec![0; SALT_LEN],
                hash: vec![0; HASH_LEN],
            },
            denials: Mutex::default(),
        })
    }

    /// True without users of the configuration.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// User of clients that do not log in.
    pub(crate) fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// All users.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<User>> {
        std::iter::once(&self.default).chain(&self.rows)
    }

    /// Returns the user `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.all().find(|user| user.name.as_bytes() == name)
    }

    /// Returns the user `name` if `password` is right. The time does not tell whether the user
    /// exists. Not for the default user.
    pub(crate) fn verify(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        let user = self.rows.iter().find(|user| user.name.as_bytes() == name);
        let hash = user.and_then(|user| user.hash.as_ref()).unwrap_or(&self.placeholder);
        let is_right = hash.is_of(password);
        user.filter(|_| is_right)
    }

    /// Records a denial. The same denial of a user within a minute counts up.
    pub(crate) fn record_denial(&self, entry: DenialEntry) {
        const SAME: Duration = Duration::from_secs(60);
        let mut denials = self.denials.lock();
        let same = denials.iter().position(|old| {
            old.reason == entry.reason
                && old.object == entry.object
                && old.user == entry.user
                && entry.at.saturating_sub(old.at) < SAME
        });
        let count = same.and_then(|index| denials.remove(index)).map_or(0, |old| old.count);
        denials.push_front(DenialEntry { count: count + 1, ..entry });
        denials.truncate(MAX_DENIALS);
    }

    /// Last denials, the newest one first.
    pub(crate) fn denials(&self) -> Vec<DenialEntry> {
        self.denials.lock().iter().cloned().collect()
    }

    /// Forgets the denials.
    pub(crate) fn reset_denials(&self) {
        self.denials.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_of_a_password() {
        let text = hash_password(b"secret", [7; 16]).unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$BwcHBwcHBwcHBwcHBwcHBw$"), "{text}");
        let hash = PasswordHash::parse(&text).unwrap();
        assert_eq!(hash.text(), text);
        assert!(hash.is_of(b"secret") && !hash.is_of(b"Secret") && !hash.is_of(b""));
    }

    #[test]
    fn damaged_hashes() {
        let text = hash_password(b"secret", [7; 16]).unwrap();
        for damaged in [
            String::new(),
            text.replace("argon2id", "argon2i"),
            text.replace("m=19456", "m=4294967295"),
            text.replace("t=2", "t=0"),
            text.replace("p=1", "p=x"),
            text[..60].to_owned(),
        ] {
            assert_eq!(PasswordHash::parse(&damaged), None, "{damaged}");
        }
    }

    #[test]
    fn rows_of_users() {
        let user = UserConfig::parse("bob role=write prefix=a: prefix=b: category=string hash=x").unwrap();
        assert_eq!((user.role, user.prefixes.len(), user.categories.len()), (Role::Write, 2, 1));
        for (wrong, expected) in [
            ("", "without a name"),
            ("bob", "role is missing"),
            ("bob role=root", "role \"root\""),
            ("bob role=read prefx=a", "word \"prefx=a\""),
            ("bob role=read prefix=", "word \"prefix=\""),
        ] {
            let error = UserConfig::parse(wrong).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
