//! Messages about connections to a distributed engine that fail.

use std::error::Error as StdError;

use crate::address::Address;
use crate::error::Error;

/// Message of the libraries for every failure of a connection. Its cause tells more.
const GENERAL: &str = "transport error";
/// Text before the times in the message about an expired certificate.
const TIMES: &str = ": verification time";

/// Returns `first`, and the messages of `error` and its causes, each once.
pub(super) fn messages(first: &str, error: &dyn StdError) -> String {
    let mut all = vec![first.to_owned()];
    let mut cause = Some(error);
    while let Some(error) = cause {
        all.push(error.to_string());
        cause = error.source();
    }
    let told = all.iter().enumerate().filter(|(at, message)| !is_in_another(&all, *at, message));
    let told: Vec<&str> = told.map(|(_, message)| message.as_str()).collect();
    let causes: Vec<&str> = told.iter().copied().filter(|message| *message != GENERAL).collect();
    let told = if causes.is_empty() { told } else { causes };
    told.iter().map(|message| message.split(TIMES).next().unwrap_or_default()).collect::<Vec<_>>().join(": ")
}

/// Returns true if the message at `at` is a part of another one. Of two equal messages, the first
/// one remains.
fn is_in_another(messages: &[String], at: usize, message: &str) -> bool {
    let mut others = messages.iter().enumerate().filter(|(other, _)| *other != at);
    others.any(|(other, text)| text.contains(message) && (text != message || other < at))
}

/// Parts of messages about connections, and what they mean with TLS and without it.
struct Meaning {
    part: &'static str,
    /// The server wants or refuses a certificate of the client.
    is_about_client: bool,
}

/// Meanings in the order of the checks.
static MEANINGS: &[Meaning] = &[
    Meaning { part: "fatal alert", is_about_client: true },
    Meaning { part: "broken pipe", is_about_client: true },
    Meaning { part: "onnection reset", is_about_client: true },
    Meaning { part: "connection closed", is_about_client: true },
    Meaning { part: "handshake eof", is_about_client: false },
    Meaning { part: "InvalidContentType", is_about_client: false },
    Meaning { part: "frame with invalid size", is_about_client: false },
];

/// Adds the option of `address` that may be wrong to an error of its first request.
pub(super) fn explain(error: Error, address: &Address) -> Error {
    let Error::Unavailable(reason) = error else { return error };
    let advice = advice(&reason, address.option("ca"), address.option("cert"));
    Error::Unavailable(advice.map_or(reason.clone(), |advice| format!("{reason}; {advice}")))
}

fn advice(reason: &str, ca: Option<&str>, cert: Option<&str>) -> Option<String> {
    // The second one: another authority with the same name.
    if reason.contains("UnknownIssuer") || reason.contains("BadSignature") {
        return ca.map(|ca| format!("no authority in {ca} has issued it"));
    }
    let meaning = MEANINGS.iter().find(|meaning| reason.contains(meaning.part))?;
    Some(match (ca, cert) {
        (None, _) => "the servers may use TLS, which needs ca=FILE".into(),
        (Some(_), Some(cert)) if meaning.is_about_client => {
            format!("the servers may refuse the certificate in {cert}")
        }
        (Some(_), None) if meaning.is_about_client => {
            "the servers may want a certificate of the client, which needs cert=FILE and key=FILE".into()
        }
        (Some(ca), _) => format!("the servers may not use TLS, which ca={ca} turns on"),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Error as IoError;

    use super::*;

    /// Error with a message and a cause.
    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<dyn StdError>>);

    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Layer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref()
        }
    }

    #[track_caller]
    fn check(first: &str, layers: &[&'static str], expect: &str) {
        let chain = layers
            .iter()
            .rev()
            .fold(None, |cause, layer| Some(Box::new(Layer(layer, cause)) as Box<dyn StdError>));
        let chain = chain.unwrap_or_else(|| Box::new(IoError::other("no cause")));
        assert_eq!(messages(first, &*chain), expect);
    }

    #[rustfmt::skip]
    mod causes {
        use super::check;
        #[test] fn refused()      { check("tcp connect error", &["transport error", "tcp connect error", "Connection refused"], "tcp connect error: Connection refused"); }
        #[test] fn longer_cause() { check("", &["transport error", "connect error: reset", "reset"], "connect error: reset"); }
        #[test] fn no_cause()     { check("", &["transport error"], "transport error"); }
        #[test] fn repeated()     { check("eof", &["transport error", "eof"], "eof"); }
        #[test] fn expired()      { check("expired: verification time 7 (UNIX)", &["transport error"], "expired"); }
    }

    #[rustfmt::skip]
    mod advices {
        use super::advice;
        #[track_caller]
        fn check(reason: &str, ca: Option<&str>, cert: Option<&str>, expect: &str) {
            let told = advice(reason, ca, cert).unwrap_or_default();
            assert!(told.contains(expect) && told.is_empty() == expect.is_empty(), "{told}");
        }
        #[test] fn other_issuer()    { check("invalid peer certificate: UnknownIssuer", Some("ca.pem"), None, "in ca.pem"); }
        #[test] fn no_certificate()  { check("received fatal alert: BadCertificate", Some("ca.pem"), None, "cert=FILE"); }
        #[test] fn bad_certificate() { check("received fatal alert: BadCertificate", Some("ca.pem"), Some("me.pem"), "me.pem"); }
        #[test] fn no_tls()          { check("stream closed because of a broken pipe", None, None, "ca=FILE"); }
        #[test] fn needless_tls()    { check("tls handshake eof", Some("ca.pem"), None, "ca=ca.pem"); }
        #[test] fn other_reason()    { check("Connection refused", Some("ca.pem"), None, ""); }
    }
}
