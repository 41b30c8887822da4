//! Where one member of etcd listens: what a setting says, and what it means.

use std::fmt;
use std::net::Ipv6Addr;

use id_gen_core::fleet::store::{StoreError, StoreErrorKind};

/// The port for clients, in etcd's own documentation and at IANA.
const DEFAULT_PORT: u16 = 2379;

/// One endpoint, displayed as the setting has it, with the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address, an IPv6 address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether it is spoken to in HTTPS.
    pub(super) tls: bool,
}

impl Endpoint {
    pub(super) fn parse(text: &str) -> Result<Endpoint, StoreError> {
        let wrong = |detail: &str| StoreError {
            kind: StoreErrorKind::Address,
            server: format!("\"{text}\""),
            detail: detail.to_owned(),
        };
        let (tls, address) = match (text.strip_prefix("etcd://"), text.strip_prefix("etcds://")) {
            (Some(address), _) => (false, address),
            (_, Some(address)) => (true, address),
            (None, None) => {
                return Err(wrong(
                    "the address must begin with etcd://, etcds:// or postgresql://",
                ));
            }
        };
        let (host, port) = if let Some(rest) = address.strip_prefix('[') {
            let (host, port) =
                rest.split_once(']').ok_or_else(|| wrong("the bracket is not closed"))?;
            host.parse::<Ipv6Addr>()
                .map_err(|_| wrong("what is in brackets is not an IPv6 address"))?;
            (host, port)
        } else {
            let (host, port) = address.split_at(address.find(':').unwrap_or(address.len()));
            let is_in_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if host.is_empty() || !host.bytes().all(is_in_names) {
                return Err(wrong(
                    "it names no host; nothing but host and port may follow the slashes",
                ));
            }
            (host, port)
        };
        let port = match port.strip_prefix(':') {
            // A number with a sign parses too.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().unwrap_or(0)
            }
            Some(_) => 0,
            None if port.is_empty() => DEFAULT_PORT,
            None => 0,
        };
        if port == 0 {
            return Err(wrong("what follows the host is not a port from 1 to 65535"));
        }
        Ok(Endpoint { host: host.to_owned(), port, tls })
    }

    /// The URL of something at this endpoint.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.authority())
    }

    fn authority(&self) -> String {
        let Endpoint { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "etcds" } else { "etcd" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::super::EtcdOptions;
    use super::*;

    #[test]
    fn a_list_of_endpoints() {
        let endpoints = EtcdOptions::parse_endpoints(
            "etcd://a, etcds://b-1.x:1,etcd://[::1],etcds://[fe80::1]:9",
        );
        let shown: Vec<_> = endpoints.unwrap().iter().map(Endpoint::to_string).collect();
        assert_eq!(
            shown,
            ["etcd://a:2379", "etcds://b-1.x:1", "etcd://[::1]:2379", "etcds://[fe80::1]:9"]
        );
        assert_eq!(Endpoint::parse("etcds://[::1]").unwrap().url("/x"), "https://[::1]:2379/x");
    }

    #[test]
    fn no_part_of_a_password_is_told() {
        for text in
            ["etcd://u:secret@a", "etcd://u:secret,b@a", "etcd://a,etcd://b:secret/@c", "secret@"]
        {
            let error = EtcdOptions::parse_endpoints(text).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Address);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_is_no_endpoint() {
        for text in [
            "",
            "a:2379",
            "http://a",
            "etcd://",
            "etcd://:1",
            "etcd://a:",
            "etcd://a:0",
            "etcd://a:+1",
            "etcd://a:65536",
            "etcd://a/",
            "etcd://a:1/x",
            "etcd://u:p@a",
            "etcd://a?x",
            "etcd://::1",
            "etcd://[a]",
            "etcd://[::1",
            "etcd://[::1]2",
            "etcd://a b",
            "etcd://a,",
            "ETCD://a",
        ] {
            let error = EtcdOptions::parse_endpoints(text).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Address, "{text}: {error}");
        }
    }
}
