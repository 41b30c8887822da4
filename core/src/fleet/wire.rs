//! A store behind a boundary that only bytes pass: its calls and their answers, as JSON.
//!
//! The server's library holds no code that opens a connection: stores are in a library of their own, the *driver*, which the
//! process that asks them loads. [`Remote`] is a store on this side of the boundary, [`serve`] answers it on the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::fleet::store::{
    Other, OtherTexts, Store, StoreError, StoreErrorKind, Swap, Swapped, Weakness,
};

/// How a setting begins that names a PostgreSQL server. Every other one names members of etcd.
const POSTGRESQL_SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// How to reach a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// A list of members of etcd, or a URI of PostgreSQL.
    pub registry: String,
    /// The longest that a call takes, in milliseconds.
    pub timeout_ms: u64,
    /// The file of the certificate authority, for etcd.
    pub ca_file: Option<String>,
    /// The file of the client certificate, for etcd.
    pub cert_file: Option<String>,
    /// The file of its private key, for etcd.
    pub key_file: Option<String>,
    /// The user name, for etcd.
    pub user: Option<String>,
    /// The file with the password, for etcd.
    pub password_file: Option<String>,
}

impl Options {
    /// Whether the store is a table on a PostgreSQL server.
    pub fn is_postgresql(&self) -> bool {
        POSTGRESQL_SCHEMES.iter().any(|scheme| self.registry.starts_with(scheme))
    }
}

#[derive(Serialize, Deserialize)]
enum Call {
    Check,
    Identity,
    Prepare,
    Weakness,
    List(String),
    Get(String),
    Swap { key: String, expected: Option<String>, new: String, others: Vec<OtherTexts> },
}

#[derive(Serialize, Deserialize)]
struct Reply<T> {
    answer: Result<T, StoreError>,
    seen: Option<(String, i64)>,
}

/// What is wrong with the library that has the stores.
pub fn unexpected(detail: String) -> StoreError {
    let server = "the registry's library".to_owned();
    StoreError { kind: StoreErrorKind::Unexpected, server, detail }
}

/// The bytes that stand for something. All that passes here is made of texts, numbers and lists.
pub fn encode(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).unwrap_or_default()
}

/// Reads a value from the bytes that [`encode`] made of it.
///
/// # Errors
/// If the bytes are not those of such a value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| unexpected(error.to_string()))
}

/// Carries a call out, and returns the bytes of the answer.
pub fn serve(store: &mut dyn Store, call: &[u8]) -> Served {
    fn reply<T: Serialize>(
        store: &mut dyn Store,
        call: impl FnOnce(&mut dyn Store) -> Result<T, StoreError>,
    ) -> Served {
        let answer = call(store);
        let refused = answer.as_ref().err().map(|error| error.kind);
        Served { answer: encode(&Reply { answer, seen: store.seen() }), refused }
    }
    let call = decode(call).map(|(call, seen)| {
        store.follow(seen);
        call
    });
    match call {
        Ok(Call::Check) => reply(store, |store| store.check()),
        Ok(Call::Identity) => reply(store, |store| store.identity()),
        Ok(Call::Prepare) => reply(store, |store| store.prepare()),
        Ok(Call::Weakness) => reply(store, |store| store.weakness()),
        Ok(Call::List(prefix)) => reply(store, |store| store.list(&prefix)),
        Ok(Call::Get(key)) => reply(store, |store| store.get(&key)),
        Ok(Call::Swap { key, expected, new, others }) => {
            let others: Vec<_> = others.iter().map(Other::of).collect();
            let swap =
                Swap { key: &key, expected: expected.as_deref(), new: &new, others: &others };
            reply(store, |store| store.swap(&swap))
        }
        Err(error) => Served { refused: Some(error.kind), answer: refusal(error) },
    }
}

/// The outcome of a call.
pub struct Served {
    /// The bytes of the answer.
    pub answer: Vec<u8>,
    /// The kind of error, if it is one.
    pub refused: Option<StoreErrorKind>,
}

/// The answer to a call that was not carried out.
pub fn refusal(error: StoreError) -> Vec<u8> {
    encode(&Reply::<()> { answer: Err(error), seen: None })
}

/// The latest position of each registry that stores have seen: all that have a clone know it.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<BTreeMap<String, i64>>>);

impl Seen {
    /// One position, kept by a server.
    pub fn kept(identity: String, position: i64) -> Seen {
        Seen(Arc::new(Mutex::new(BTreeMap::from([(identity, position)]))))
    }

    /// The latest position of a registry.
    pub fn position(&self, identity: &str) -> Option<i64> {
        self.get().get(identity).copied()
    }

    /// Positions, by [`Store::identity`].
    fn get(&self) -> BTreeMap<String, i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, seen: Option<(String, i64)>) {
        if let Some((identity, position)) = seen {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let last = known.entry(identity).or_insert(position);
            *last = position.max(*last);
        }
    }
}

/// A store on the other side.
#[derive(Debug)]
pub struct Remote<F> {
    /// Passes the bytes of a call, and returns those of its answer.
    pass: F,
    seen: Seen,
}

impl<F: FnMut(&[u8]) -> Vec<u8>> Remote<F> {
    /// The store that this function passes calls to, with what was seen so far.
    pub const fn new(pass: F, seen: Seen) -> Remote<F> {
        Remote { pass, seen }
    }

    fn ask<T: DeserializeOwned>(&mut self, call: &Call) -> Result<T, StoreError> {
        // As of before the call: an answer to another one that comes meanwhile may be of later.
        let asked = encode(&(call, self.seen.get()));
        let Reply { answer, seen } = decode(&(self.pass)(&asked))?;
        self.seen.note(seen);
        answer
    }
}

impl<F: FnMut(&[u8]) -> Vec<u8>> Store for Remote<F> {
    fn check(&mut self) -> Result<(), StoreError> {
        self.ask(&Call::Check)
    }

    fn identity(&mut self) -> Result<String, StoreError> {
        self.ask(&Call::Identity)
    }

    fn prepare(&mut self) -> Result<(), StoreError> {
        self.ask(&Call::Prepare)
    }

    fn weakness(&mut self) -> Result<Option<Weakness>, StoreError> {
        self.ask(&Call::Weakness)
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.ask(&Call::List(prefix.to_owned()))
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
        self.ask(&Call::Get(key.to_owned()))
    }

    fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
        self.ask(&Call::Swap {
            key: swap.key.to_owned(),
            expected: swap.expected.map(str::to_owned),
            new: swap.new.to_owned(),
            others: swap
                .others
                .iter()
                .map(|it| {
                    (it.key.to_owned(), it.expected.map(str::to_owned), it.new.map(str::to_owned))
                })
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::store::WeaknessKind;

    /// Answers what it was asked, and how often that was.
    #[derive(Default)]
    struct Echo(u32);

    fn failed(detail: &str) -> StoreError {
        let server = "etcd://ünïcode:1".to_owned();
        StoreError { kind: StoreErrorKind::NoQuorum, server, detail: detail.to_owned() }
    }

    impl Store for Echo {
        fn check(&mut self) -> Result<(), StoreError> {
            self.0 += 1;
            Ok(())
        }

        fn identity(&mut self) -> Result<String, StoreError> {
            Ok("étcd \"7\"".to_owned())
        }

        fn prepare(&mut self) -> Result<(), StoreError> {
            Err(failed("of \"three\"\n"))
        }

        fn weakness(&mut self) -> Result<Option<Weakness>, StoreError> {
            Ok(Some(Weakness { kind: WeaknessKind::Quota, detail: "95 %".to_owned() }))
        }

        fn list(&mut self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
            Ok(vec![(prefix.to_owned(), "\\\u{0}é".to_owned())])
        }

        fn get(&mut self, key: &str) -> Result<Option<String>, StoreError> {
            Ok(Some(key.to_owned()).filter(|key| !key.is_empty()))
        }

        fn swap(&mut self, swap: &Swap<'_>) -> Result<Swapped, StoreError> {
            Ok(Swapped::Differs { found: Some(format!("{swap:?}")) })
        }

        fn seen(&self) -> Option<(String, i64)> {
            (self.0 > 0).then(|| ("echo".to_owned(), self.0.into()))
        }
    }

    #[test]
    fn calls_and_answers_come_through_as_they_are() {
        let mut echo = Echo::default();
        let mut remote = Remote::new(|call: &[u8]| serve(&mut echo, call).answer, Seen::default());
        let seen = remote.seen.clone();
        assert_eq!(remote.get("a\"b"), Ok(Some("a\"b".to_owned())));
        let known = |position| BTreeMap::from([("echo".to_owned(), position)]);
        assert_eq!((remote.get(""), seen.get()), (Ok(None), BTreeMap::new()));
        assert_eq!((remote.check(), seen.get()), (Ok(()), known(1)));
        assert_eq!(remote.identity(), Echo::default().identity());
        assert_eq!(remote.prepare(), Err(failed("of \"three\"\n")));
        assert_eq!(remote.weakness(), Echo::default().weakness());
        assert_eq!(remote.list("/id_gen/"), Echo::default().list("/id_gen/"));
        let others = [
            Other { key: "m", expected: Some("\"1"), new: None },
            Other { key: "n", expected: None, new: Some("") },
        ];
        for swap in [
            Swap { key: "k", expected: None, new: "", others: &[] },
            Swap { key: "k", expected: Some(""), new: "é", others: &others },
        ] {
            assert_eq!(remote.swap(&swap), Echo::default().swap(&swap));
        }
    }

    #[test]
    fn bytes_that_are_no_call_and_no_answer_are_errors() {
        let mut echo = Echo::default();
        for bytes in [&b""[..], b"null", b"\xff", b"{\"List\":1}"] {
            let reply: Reply<()> = decode(&serve(&mut echo, bytes).answer).unwrap();
            assert_eq!(reply.answer.unwrap_err().kind, StoreErrorKind::Unexpected);
            let error =
                Remote::new(|_: &[u8]| bytes.to_vec(), Seen::default()).check().unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Unexpected);
        }
    }
}
