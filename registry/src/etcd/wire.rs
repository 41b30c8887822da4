//! What is said to etcd's JSON gateway and what it answers: protocol buffers written as JSON. Keys and values are in
//! base64, 64-bit integers are strings, and a field that has its default (false, empty, 0) is left out.
//!
//! Nothing of an answer gets into an error but etcd's own message, as some answers hold tokens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use id_gen_core::fleet::store::{Other, StoreErrorKind, Swap, Swapped, Weakness, WeaknessKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest part of etcd's message that is passed on, in characters.
const LONGEST_MESSAGE: usize = 300;

/// From which part of its quota on etcd's database is too large.
const NEAR_QUOTA: f64 = 0.8;

/// An answer that is not the one hoped for.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) kind: StoreErrorKind,
    pub(super) detail: String,
    /// The token is missing or no longer valid, and nothing was done.
    pub(super) token_invalid: bool,
    /// etcd asks for no user.
    pub(super) auth_is_off: bool,
}

impl Refusal {
    fn unexpected(detail: impl Into<String>) -> Refusal {
        let (kind, detail) = (StoreErrorKind::Unexpected, detail.into());
        Refusal { kind, detail, token_invalid: false, auth_is_off: false }
    }
}

#[derive(Debug)]
struct Bytes(Vec<u8>);

impl Bytes {
    /// Values of others need not be texts. What stands for their bytes here is in none of ours, so it equals none.
    fn into_text(self) -> String {
        String::from_utf8(self.0)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Bytes {
        Bytes(text.as_bytes().to_vec())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes).map_err(serde::de::Error::custom)
    }
}

#[derive(Serialize)]
pub(super) struct Range {
    key: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    range_end: Option<Bytes>,
}

impl Range {
    pub(super) fn key(key: &str) -> Range {
        Range { key: key.into(), range_end: None }
    }

    /// All keys from the prefix up to, and without, the next text of its length. In etcd, a lone zero byte as a range's
    /// end stands for the end of all keys.
    pub(super) fn prefix(prefix: &str) -> Range {
        let mut end = prefix.as_bytes().to_vec();
        match end.last_mut() {
            // No byte of UTF-8 is 255.
            Some(last) => *last += 1,
            None => return Range { key: Bytes(vec![0]), range_end: Some(Bytes(vec![0])) },
        }
        Range { key: prefix.into(), range_end: Some(Bytes(end)) }
    }
}

#[derive(Serialize)]
pub(super) struct Txn {
    compare: Vec<Compare>,
    success: Vec<Operation>,
    failure: Vec<Operation>,
}

#[derive(Serialize)]
struct Compare {
    key: Bytes,
    result: &'static str,
    #[serde(flatten)]
    target: Target,
}

#[derive(Serialize)]
#[serde(tag = "target")]
enum Target {
    #[serde(rename = "VALUE")]
    Value { value: Bytes },
    #[serde(rename = "VERSION")]
    Version { version: &'static str },
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    RequestPut { key: Bytes, value: Bytes },
    RequestRange(Range),
}

impl Compare {
    fn value(key: &str, value: &str) -> Compare {
        Compare { key: key.into(), result: "EQUAL", target: Target::Value { value: value.into() } }
    }

    /// A key that is not there has the version 0, and no other key has.
    fn absent(key: &str) -> Compare {
        Compare { key: key.into(), result: "EQUAL", target: Target::Version { version: "0" } }
    }
}

impl Txn {
    /// Compares whole values: after etcd was brought back from a backup, a revision names something else.
    pub(super) fn of(swap: &Swap<'_>) -> Txn {
        let compare = |it: Other<'_>| match it.expected {
            Some(expected) => Compare::value(it.key, expected),
            None => Compare::absent(it.key),
        };
        let put = |it: Other<'_>| {
            Some(Operation::RequestPut { key: it.key.into(), value: it.new?.into() })
        };
        let read = |it: Other<'_>| Operation::RequestRange(Range::key(it.key));
        Txn {
            compare: swap.keys().map(compare).collect(),
            success: swap.keys().filter_map(put).collect(),
            failure: swap.keys().map(read).collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Authenticate<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

/// The text of a request. Texts and lists of texts have one, whatever they hold.
pub(super) fn encode(request: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(request).unwrap_or_default()
}

/// Every answer has one; without it, who answered is not etcd. A member whose revision is 0 leaves it out.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Header {
    pub(super) cluster_id: String,
    #[serde(default, deserialize_with = "number")]
    pub(super) revision: i64,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

#[derive(Deserialize)]
struct AnyAnswer {
    header: Header,
}

#[derive(Deserialize)]
struct Pair {
    key: Bytes,
    #[serde(default = "no_bytes")]
    value: Bytes,
}

fn no_bytes() -> Bytes {
    Bytes(Vec::new())
}

#[derive(Deserialize)]
struct RangeAnswer {
    #[serde(rename = "header")]
    _header: Header,
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct TxnAnswer {
    #[serde(rename = "header")]
    _header: Header,
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<TxnResponse>,
}

#[derive(Deserialize)]
struct TxnResponse {
    response_range: Option<TxnRange>,
}

#[derive(Deserialize)]
struct TxnRange {
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

/// etcd 3.6 has no `error` any more, and older ones have the same text in both.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorAnswer {
    code: u32,
    error: String,
    message: String,
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Refusal::unexpected(format!("its response is not from etcd (line {line}, column {column})"))
    })
}

/// Which cluster has answered, and its revision then.
pub(super) fn header(body: &[u8]) -> Result<Header, Refusal> {
    parse(body).map(|AnyAnswer { header }| header)
}

pub(super) fn pairs(body: &[u8]) -> Result<Vec<(String, String)>, Refusal> {
    let answer: RangeAnswer = parse(body)?;
    Ok(answer.kvs.into_iter().map(|pair| (pair.key.into_text(), pair.value.into_text())).collect())
}

pub(super) fn token(body: &[u8]) -> Result<String, Refusal> {
    parse(body).map(|Token { token }| token)
}

/// What came of a swap. What is said of other keys comes first.
pub(super) fn swapped(body: &[u8], swap: &Swap<'_>) -> Result<Swapped, Refusal> {
    let answer: TxnAnswer = parse(body)?;
    if answer.succeeded {
        return Ok(Swapped::Done);
    }
    let mut found = answer.responses.into_iter().map(|response| {
        let range = response.response_range?;
        Some(range.kvs.into_iter().next().map(|pair| pair.value.into_text()))
    });
    let mut next = || {
        found.next().flatten().ok_or_else(|| Refusal::unexpected("its answer lacks what was found"))
    };
    let value = next()?;
    for (other, wanted) in swap.others.iter().enumerate() {
        if next()?.as_deref() != wanted.expected {
            return Ok(Swapped::Forbidden { other });
        }
    }
    if value.as_deref() == swap.expected {
        return Err(Refusal::unexpected("it did not swap the value that it has"));
    }
    Ok(Swapped::Differs { found: value })
}

/// Whether etcd's metrics say that its database is near its quota. One that is switched off is not among them, or zero.
pub(super) fn near_quota(metrics: &[u8]) -> Option<Weakness> {
    let text = std::str::from_utf8(metrics).ok()?;
    let value = |name: &str| -> Option<f64> {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        values.next()?.trim().parse().ok()
    };
    let size = value("etcd_mvcc_db_total_size_in_bytes")?;
    let used = size / value("etcd_server_quota_backend_bytes").filter(|quota| *quota > 0.0)?;
    (used > NEAR_QUOTA).then(|| Weakness {
        kind: WeaknessKind::Quota,
        detail: format!("its database takes {:.0} % of it", used * 100.0),
    })
}

/// What an answer with another status than 200 means. The messages are those of etcd's `rpctypes`.
pub(super) fn refusal(status: u16, body: &[u8]) -> Refusal {
    const UNAVAILABLE: u32 = 14;
    const DEADLINE_EXCEEDED: u32 = 4;
    const UNAUTHENTICATED: u32 = 16;
    const PERMISSION_DENIED: u32 = 7;

    let answer: ErrorAnswer = serde_json::from_slice(body).unwrap_or_default();
    let message = if answer.message.is_empty() { answer.error } else { answer.message };
    let says = |words: &str| message.contains(words);
    let kind = if status == 404 {
        StoreErrorKind::NoGateway
    } else if says("database space exceeded") {
        StoreErrorKind::NoSpace
    } else if says("request timed out") || says("no leader") || says("leader changed") {
        StoreErrorKind::NoQuorum
    } else if matches!(answer.code, UNAUTHENTICATED | PERMISSION_DENIED)
        || says("user name is empty")
        || says("invalid user ID or password")
        || says("revision of auth store is old")
    {
        StoreErrorKind::Credentials
    } else if answer.code == DEADLINE_EXCEEDED {
        StoreErrorKind::TimedOut
    } else if answer.code == UNAVAILABLE || matches!(status, 502..=504) {
        StoreErrorKind::Unreachable
    } else {
        StoreErrorKind::Unexpected
    };
    Refusal {
        kind,
        token_invalid: answer.code == UNAUTHENTICATED
            || says("revision of auth store is old")
            || says("user name is empty"),
        auth_is_off: says("authentication is not enabled"),
        detail: if status == 404 {
            "it has no JSON gateway: HTTP status 404".to_owned()
        } else if message.is_empty() {
            format!("HTTP status {status}")
        } else {
            message.chars().take(LONGEST_MESSAGE).collect()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_etcd_says_when_it_refuses() {
        for (status, code, message, kind) in [
            (
                503,
                14,
                "etcdserver: request timed out, possibly due to connection lost",
                StoreErrorKind::NoQuorum,
            ),
            (503, 14, "etcdserver: leader changed", StoreErrorKind::NoQuorum),
            (503, 14, "etcdserver: server stopped", StoreErrorKind::Unreachable),
            (504, 4, "context deadline exceeded", StoreErrorKind::TimedOut),
            (401, 16, "etcdserver: invalid auth token", StoreErrorKind::Credentials),
            (400, 3, "etcdserver: revision of auth store is old", StoreErrorKind::Credentials),
            (429, 8, "etcdserver: too many requests", StoreErrorKind::Unexpected),
        ] {
            // etcd 3.6, and those before.
            for fields in [format!("\"message\":\"{message}\""), format!("\"error\":\"{message}\"")]
            {
                let refusal = refusal(status, format!("{{\"code\":{code},{fields}}}").as_bytes());
                assert_eq!((refusal.kind, refusal.detail.as_str()), (kind, message));
            }
        }
    }
}
