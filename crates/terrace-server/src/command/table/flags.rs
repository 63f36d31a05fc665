//! Flags of commands.

/// Set of properties of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// Union of two sets.
    pub(super) const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// True if all flags of `other` are set.
    pub(crate) const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names that COMMAND INFO shows.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| *name)
    }
}

/// Flags that other modules ask for.
impl Flags {
    /// Changes keys.
    pub(crate) const WRITE: Flags = WRITE;
    /// Is a script: it runs on the script thread.
    pub(crate) const SCRIPT: Flags = SCRIPT;
    /// Is a read that stores its result in the key, if the server accepts writes.
    pub(crate) const CACHES: Flags = CACHES;
    /// Writes members of one object, which one batch may do for several commands.
    pub(crate) const SERIES: Flags = SERIES;
    /// Takes a short and bounded time.
    pub(crate) const FAST: Flags = FAST;
    /// Reads keys and changes none.
    pub(crate) const READ: Flags = READ;
    /// May wait for another client.
    pub(crate) const BLOCKING: Flags = BLOCKING;
    /// Administers the server.
    pub(crate) const ADMIN: Flags = ADMIN;
    /// Is long: it runs in the slow pool.
    pub(crate) const SLOW: Flags = SLOW;
    /// No write command runs beside it.
    pub(crate) const ALONE: Flags = ALONE;
    /// Is an error within MULTI.
    pub(crate) const NO_MULTI: Flags = NO_MULTI;
    /// Runs at once within MULTI.
    pub(crate) const NOT_QUEUED: Flags = NOT_QUEUED;
    /// Needs no login.
    pub(crate) const NO_AUTH: Flags = NO_AUTH;
    /// Is allowed for a subscriber in version 2 of the protocol.
    pub(crate) const WHILE_SUBSCRIBED: Flags = WHILE_SUBSCRIBED;
    /// Is an error in scripts: it needs a connection of its own, or runs other commands.
    pub(crate) const NO_SCRIPT: Flags = NO_SCRIPT;
    /// Is allowed while a script exceeds its time limit.
    pub(crate) const ALLOW_BUSY: Flags = ALLOW_BUSY;
    /// Is a container of subcommands.
    pub(crate) const CONTAINER: Flags = CONTAINER;
    /// Runs commands or subcommands that may change something.
    pub(crate) const MAY_WRITE: Flags = MAY_WRITE;
    /// Touches no keys, or only counts and names of the server.
    pub(crate) const NO_KEYS: Flags = NO_KEYS;
    /// Is in the category `dangerous`, without the flag `admin`.
    pub(crate) const DANGEROUS: Flags = DANGEROUS;
}

pub(super) const SCRIPT: Flags = Flags(1 << 20);
pub(super) const CACHES: Flags = Flags(1 << 21);
pub(super) const SERIES: Flags = Flags(1 << 22);
pub(super) const NO_FLAGS: Flags = Flags(0);
pub(super) const WRITE: Flags = Flags(1);
pub(super) const READ: Flags = Flags(1 << 1);
pub(super) const FAST: Flags = Flags(1 << 2);
pub(super) const ADMIN: Flags = Flags(1 << 3);
pub(super) const PUBSUB: Flags = Flags(1 << 4);
pub(super) const BLOCKING: Flags = Flags(1 << 5);
pub(super) const SLOW: Flags = Flags(1 << 6);
pub(super) const ALONE: Flags = Flags(1 << 7);
pub(super) const NO_MULTI: Flags = Flags(1 << 8);
pub(super) const NOT_QUEUED: Flags = Flags(1 << 9);
pub(super) const NO_AUTH: Flags = Flags(1 << 10);
pub(super) const WHILE_SUBSCRIBED: Flags = Flags(1 << 11);
pub(super) const NO_SCRIPT: Flags = Flags(1 << 12);
pub(super) const ALLOW_BUSY: Flags = Flags(1 << 13);
pub(super) const CONTAINER: Flags = Flags(1 << 14);
pub(super) const MAY_WRITE: Flags = Flags(1 << 15);
pub(super) const NO_KEYS: Flags = Flags(1 << 16);
pub(super) const DANGEROUS: Flags = Flags(1 << 17);
pub(super) const READ_FAST: Flags = READ.and(FAST);
pub(super) const WRITE_FAST: Flags = WRITE.and(FAST);
pub(super) const MEMBER_WRITE: Flags = WRITE_FAST.and(SERIES);

static NAMES: &[(Flags, &str)] = &[
    (WRITE, "write"),
    (READ, "readonly"),
    (FAST, "fast"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NO_SCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (NO_MULTI, "no_multi"),
    (NO_AUTH, "no_auth"),
    (ALLOW_BUSY, "allow_busy"),
];
