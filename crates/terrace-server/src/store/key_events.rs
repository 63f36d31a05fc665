//! Keyspace events: notes about changed keys for subscribers.
//!
//! ```text
//!   command      view.notify(STRING, "set", key)  \
//!   expiry job   key_events.publish(..)            +-> receiver: messages of two channels
//!                                                       __keyspace@0__:key   set
//!                                                       __keyevent@0__:set   key
//! ```
//!
//! A view publishes its events after its commit. Without a wanted class, an event costs one load.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Set of event classes, one bit for each letter of `notify-keyspace-events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventClass(u32);

/// Classes of the commands, by the type of the value.
impl EventClass {
    pub(crate) const GENERIC: EventClass = EventClass(1 << 2);
    pub(crate) const STRING: EventClass = EventClass(1 << 3);
    pub(crate) const LIST: EventClass = EventClass(1 << 4);
    pub(crate) const SET: EventClass = EventClass(1 << 5);
    pub(crate) const HASH: EventClass = EventClass(1 << 6);
    pub(crate) const SORTED_SET: EventClass = EventClass(1 << 7);
    pub(crate) const EXPIRED: EventClass = EventClass(1 << 8);
    pub(crate) const STREAM: EventClass = EventClass(1 << 10);
    pub(crate) const MISS: EventClass = EventClass(1 << 11);
    pub(crate) const NEW: EventClass = EventClass(1 << 14);
}

/// Messages of the channel of the key.
const KEYSPACE: u32 = 1;
/// Messages of the channel of the event.
const KEYEVENT: u32 = 1 << 1;
/// Classes of the letter `A`: all but misses and new keys.
const ALL: u32 = 0b10_0111_1111_1100;

/// Letters in the order in which CONFIG GET returns them. `e` and `d` have no events here.
static LETTERS: &[(char, u32)] = &[
    ('g', EventClass::GENERIC.0),
    ('$', EventClass::STRING.0),
    ('l', EventClass::LIST.0),
    ('s', EventClass::SET.0),
    ('h', EventClass::HASH.0),
    ('z', EventClass::SORTED_SET.0),
    ('x', EventClass::EXPIRED.0),
    ('e', 1 << 9),
    ('t', EventClass::STREAM.0),
    ('d', 1 << 13),
    ('n', EventClass::NEW.0),
];

/// Event of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyEvent {
    pub(crate) database: u8,
    pub(crate) name: &'static str,
    pub(crate) key: Vec<u8>,
}

/// Receiver of a message: the channel and the payload.
pub(crate) type MessageReceiver = Box<dyn Fn(&[u8], &[u8]) + Send + Sync>;

/// Wanted classes, and the receiver of the messages.
#[derive(Default)]
pub(crate) struct KeyEvents {
    classes: AtomicU32,
    receiver: OnceLock<MessageReceiver>,
}

impl fmt::Debug for KeyEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyEvents").field(&self.text()).finish()
    }
}

impl KeyEvents {
    /// Connects the receiver. Events before this call are lost.
    pub(crate) fn connect(&self, receiver: MessageReceiver) {
        // A second receiver is a mistake of the server's start; the first one stays.
        let _ = self.receiver.set(receiver);
    }

    /// True if somebody may want events of `class`.
    pub(crate) fn wants(&self, class: EventClass) -> bool {
        // Relaxed: an event beside CONFIG SET may be reported or not.
        let classes = self.classes.load(Ordering::Relaxed);
        classes & class.0 != 0 && classes & (KEYSPACE | KEYEVENT) != 0
    }

    /// True if a client may want an event of any class.
    pub(crate) fn is_on(&self) -> bool {
        self.classes.load(Ordering::Relaxed) & (KEYSPACE | KEYEVENT) != 0
    }

    /// Sends the messages of an event.
    pub(crate) fn publish(&self, event: &KeyEvent) {
        let Some(receiver) = self.receiver.get() else { return };
        let classes = self.classes.load(Ordering::Relaxed);
        let KeyEvent { database, name, key } = event;
        if classes & KEYSPACE != 0 {
            receiver(&[format!("__keyspace@{database}__:").as_bytes(), key].concat(), name.as_bytes());
        }
        if classes & KEYEVENT != 0 {
            receiver(format!("__keyevent@{database}__:{name}").as_bytes(), key);
        }
    }

    /// Chooses the classes by their letters. Returns false for an unknown letter.
    pub(crate) fn choose(&self, letters: &str) -> bool {
        let mut classes = 0;
        for letter in letters.chars() {
            let known = LETTERS.iter().find(|(known, _)| *known == letter);
            classes |= match (letter, known) {
                ('A', _) => ALL,
                ('K', _) => KEYSPACE,
                ('E', _) => KEYEVENT,
                ('m', _) => EventClass::MISS.0,
                (_, Some((_, class))) => *class,
                _ => return false,
            };
        }
        self.classes.store(classes, Ordering::Relaxed);
        true
    }

    /// Letters of the chosen classes, as Redis orders them.
    pub(crate) fn text(&self) -> String {
        let classes = self.classes.load(Ordering::Relaxed);
        let has = |class: u32| classes & class != 0;
        let mut text = String::new();
        if classes & ALL == ALL {
            text.push('A');
        } else {
            text.extend(LETTERS.iter().filter(|(_, class)| has(*class)).map(|(letter, _)| letter));
        }
        let channels = [('K', KEYSPACE), ('E', KEYEVENT), ('m', EventClass::MISS.0)];
        text.extend(channels.iter().filter(|(_, class)| has(*class)).map(|(letter, _)| letter));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_classes() {
        let events = KeyEvents::default();
        for (given, expected) in
            [("A", "A"), ("KEA", "AKE"), ("KEAmn", "AKEm"), ("Kg$", "g$K"), ("KEnm", "nKEm"), ("", "")]
        {
            assert!(events.choose(given));
            assert_eq!(events.text(), expected, "{given}");
        }
        assert!(!events.choose("KEq"));
        assert_eq!(events.text(), "");
    }

    #[test]
    fn class_without_a_channel_is_not_wanted() {
        let events = KeyEvents::default();
        for (letters, expected) in [("A", false), ("KA", true), ("E$", true), ("Eg", false)] {
            assert!(events.choose(letters));
            assert_eq!(events.wants(EventClass::STRING), expected, "{letters}");
        }
    }
}
