//! Passwords: comparison in constant time, and a limit for attempts.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use subtle::ConstantTimeEq;
use terrace_sync::native_locks::Mutex;

/// Maximum number of wrong attempts of an address within a second.
const ATTEMPTS_PER_SECOND: u32 = 10;

/// Returns true if `given` is the password. The time depends on the lengths only.
pub(crate) fn is_equal(password: &[u8], given: &[u8]) -> bool {
    password.ct_eq(given).into()
}

/// Attempts of the current second, by address. Clients of the Unix socket share a row.
#[derive(Debug, Default)]
pub(crate) struct LoginAttempts {
    window: Mutex<(u64, HashMap<Option<IpAddr>, u32>)>,
}

impl LoginAttempts {
    /// Counts an attempt. Returns false if the address has to wait for the next second.
    pub(crate) fn permit(&self, address: Option<IpAddr>, now: Duration) -> bool {
        let mut window = self.window.lock();
        let (second, attempts) = &mut *window;
        if *second != now.as_secs() {
            *second = now.as_secs();
            attempts.clear();
        }
        let count = attempts.entry(address).or_default();
        *count += 1;
        *count <= ATTEMPTS_PER_SECOND
    }

    /// Takes back the attempt that was permitted at `now`, because its password was right. So the
    /// clients of a pool may log in at the same time.
    pub(crate) fn take_back(&self, address: Option<IpAddr>, now: Duration) {
        let mut window = self.window.lock();
        let (second, attempts) = &mut *window;
        if *second == now.as_secs()
            && let Some(count) = attempts.get_mut(&address)
        {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords() {
        assert!(is_equal(b"secret", b"secret"));
        for wrong in [&b""[..], b"secre", b"secrets", b"Secret"] {
            assert!(!is_equal(b"secret", wrong));
        }
    }

    #[test]
    fn attempts_of_an_address() {
        let attempts = LoginAttempts::default();
        let address = Some(IpAddr::from([127, 0, 0, 1]));
        for _ in 0..ATTEMPTS_PER_SECOND {
            assert!(attempts.permit(address, Duration::from_millis(500)));
        }
        assert!(!attempts.permit(address, Duration::from_millis(999)));
        assert!(attempts.permit(None, Duration::from_millis(999)));
        assert!(attempts.permit(address, Duration::from_millis(1000)));
    }

    #[test]
    fn right_passwords_are_no_attempts() {
        let attempts = LoginAttempts::default();
        let now = Duration::from_millis(500);
        for _ in 0..2 * ATTEMPTS_PER_SECOND {
            assert!(attempts.permit(None, now));
            attempts.take_back(None, now);
        }
        for _ in 0..ATTEMPTS_PER_SECOND {
            assert!(attempts.permit(None, now));
        }
        attempts.take_back(None, Duration::from_millis(1500));
        assert!(!attempts.permit(None, now));
    }
}
