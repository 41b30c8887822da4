//! What libpq and the server say when something fails, by the way out of it.
//!
//! The server gives an SQLSTATE, whatever the language of its messages. libpq gives only a message, in English here.

use id_gen_core::fleet::store::StoreErrorKind;

/// Whether it says that a transaction did not take place because of another one at the same time: serialization failure,
/// deadlock.
pub fn is_conflict(sqlstate: &str) -> bool {
    matches!(sqlstate, "40001" | "40P01")
}

/// What an SQLSTATE means for a registry.
pub fn kind_of(sqlstate: &str) -> StoreErrorKind {
    match sqlstate {
        "25006" => StoreErrorKind::ReadOnly,
        // Statement, lock or transaction time-out; others were in the way until the time was over.
        "57014" | "55P03" | "25P04" | "40001" | "40P01" => StoreErrorKind::TimedOut,
        "42P01" => StoreErrorKind::NoTable,
        "42501" => StoreErrorKind::Credentials,
        // No such database, no such schema.
        "3D000" | "3F000" => StoreErrorKind::Setting,
        "53300" => StoreErrorKind::Unreachable,
        _ if sqlstate.starts_with("28") => StoreErrorKind::Credentials,
        // Broken connections; shutting down, crashed, starting up.
        _ if sqlstate.starts_with("08") || sqlstate.starts_with("57P") => {
            StoreErrorKind::Unreachable
        }
        _ => StoreErrorKind::Unexpected,
    }
}

/// What libpq's messages about connecting hold, by kind. The first that is found counts.
const CONNECTING: &[(StoreErrorKind, &[&str])] = &[
    (
        StoreErrorKind::Certificate,
        &[
            "certificate",
            "SSL error",
            "does not support SSL",
            "private key",
            "could not establish SSL",
        ],
    ),
    (StoreErrorKind::ReadOnly, &["session is read-only", "hot standby mode"]),
    (
        StoreErrorKind::Credentials,
        &["no password supplied", "authentication", "SCRAM", "server signature"],
    ),
    (StoreErrorKind::TimedOut, &["timed out", "timeout expired"]),
];

/// How a message of libpq's begins if it got as far as a server, or to its name.
const TRYING: &[&str] =
    &["connection to server", "could not connect to server", "could not translate host name"];

/// The kind and the text of what libpq says when it could not connect. `at_once` is whether that was before it had
/// begun to wait for a server.
pub fn of_connecting(message: &str, at_once: bool) -> (StoreErrorKind, String) {
    let kind = || {
        for (kind, texts) in CONNECTING {
            if texts.iter().any(|text| message.contains(text)) {
                return *kind;
            }
        }
        if at_once && !TRYING.iter().any(|text| message.contains(text)) {
            return StoreErrorKind::Setting;
        }
        // The last server that was tried has the last word, as in libpq.
        message
            .lines()
            .rev()
            .find_map(sqlstate_of)
            .map_or(StoreErrorKind::Unreachable, |(sqlstate, _)| kind_of(sqlstate))
    };
    (kind(), on_one_line(message))
}

/// The SQLSTATE and what follows it in a line like `... FATAL:  28P01: password authentication failed ...`.
fn sqlstate_of(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(":  ")?;
    let (sqlstate, message) = rest.split_once(": ")?;
    let is_sqlstate = sqlstate.len() == 5
        && sqlstate.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_sqlstate.then_some((sqlstate, message))
}

/// The lines that say something, without where in a source file that is.
fn on_one_line(message: &str) -> String {
    let lines =
        message.lines().filter(|line| !line.starts_with('\t') && !line.starts_with("LOCATION:"));
    let texts = lines.map(|line| match sqlstate_of(line) {
        Some((_, text)) => text,
        None => line.strip_prefix("ERROR:  ").unwrap_or(line),
    });
    texts.map(str::trim).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connecting(message: &str) -> (StoreErrorKind, String) {
        of_connecting(message, false)
    }

    #[test]
    fn the_server_says_why_by_its_sqlstate() {
        let message = "connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  53300: zu viele Verbindungen\n\
                       LOCATION:  InitProcess, proc.c:354\n";
        assert_eq!(
            connecting(message),
            (StoreErrorKind::Unreachable, "zu viele Verbindungen".to_owned())
        );
        let message = "connection to server on socket \"/tmp/.s.PGSQL.1\" failed: No such file or directory\n\
                       \tIs the server running locally and accepting connections on that socket?\n";
        assert_eq!(
            connecting(message),
            (
                StoreErrorKind::Unreachable,
                "connection to server on socket \"/tmp/.s.PGSQL.1\" failed: No such file or directory".to_owned()
            )
        );
    }

    #[test]
    fn what_was_never_tried_is_the_setting() {
        let kind = |message| of_connecting(message, true).0;
        assert_eq!(kind("invalid sslmode value: \"maybe\"\n"), StoreErrorKind::Setting);
        assert_eq!(kind("definition of service \"x\" not found\n"), StoreErrorKind::Setting);
        assert_eq!(
            kind(
                "could not translate host name \"x.invalid\" to address: Name or service not known\n"
            ),
            StoreErrorKind::Unreachable
        );
    }

    #[test]
    fn tls_that_breaks_off_is_no_certificate() {
        let tried = "connection to server at \"a\" (127.0.0.1), port 5432 failed: ";
        assert_eq!(
            connecting(&format!("{tried}SSL SYSCALL error: EOF detected\n")).0,
            StoreErrorKind::Unreachable
        );
        assert_eq!(
            connecting(&format!("{tried}SSL error: certificate verify failed\n")).0,
            StoreErrorKind::Certificate
        );
    }
}
