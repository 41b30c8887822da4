//! The store that is etcd, against real members of it, and against stubs for what they can't be made to do.

mod ports;
mod servers;
mod table;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use id_gen_core::fleet::store::{
    Other, Store, StoreErrorKind as Kind, Swap, Swapped, WeaknessKind,
};
use id_gen_registry::etcd::{Etcd, EtcdOptions};
use ports::free_port;
use servers::{Certificates, Directory, Servers, Stub, open, options, replace, say, wait_until};

const KEY: &str = "/id_gen/f/n/0/7";
const META: &str = "/id_gen/f/meta";

const NEW: Swap<'_> = Swap { key: KEY, expected: None, new: "new", others: &[] };

/// What etcd says of a key whose value is "true".
const FOUND: &str =
    r#"{"header":{"cluster_id":"1"},"kvs":[{"key":"L2lkX2dlbi9mL24vMC83","value":"dHJ1ZQ=="}]}"#;

fn put(etcd: &mut Etcd, key: &str, value: &str) {
    let expected = etcd.get(key).unwrap();
    let swap = Swap { key, expected: expected.as_deref(), new: value, others: &[] };
    assert_eq!(etcd.swap(&swap), Ok(Swapped::Done));
}

fn differs(found: Option<&str>) -> Swapped {
    Swapped::Differs { found: found.map(str::to_owned) }
}

#[test]
fn a_swap_compares_and_says_what_it_found() {
    let servers = Servers::one(&[]);
    let mut etcd = servers.open();
    assert_eq!(etcd.get(KEY), Ok(None));
    assert_eq!(etcd.swap(&Swap { expected: Some("x"), ..NEW }), Ok(differs(None)));
    assert_eq!(etcd.swap(&NEW), Ok(Swapped::Done));
    assert_eq!(etcd.get(KEY), Ok(Some("new".to_owned())));
    assert_eq!(etcd.swap(&NEW), Ok(differs(Some("new"))));
    assert_eq!(etcd.swap(&Swap { expected: Some("ne"), ..NEW }), Ok(differs(Some("new"))));
    assert_eq!(etcd.swap(&Swap { expected: Some("new"), new: "newer", ..NEW }), Ok(Swapped::Done));
    assert_eq!(etcd.get(KEY), Ok(Some("newer".to_owned())));
}

#[test]
fn the_other_key_decides_first() {
    let servers = Servers::one(&[]);
    let mut etcd = servers.open();
    let others = [Other { key: META, expected: Some("fleet"), new: None }];
    let swap = Swap { others: &others, ..NEW };
    assert_eq!(etcd.swap(&swap), Ok(Swapped::Forbidden { other: 0 }));
    put(&mut etcd, META, "another");
    assert_eq!(etcd.swap(&swap), Ok(Swapped::Forbidden { other: 0 }));
    assert_eq!(
        etcd.swap(&Swap { expected: Some("x"), ..swap }),
        Ok(Swapped::Forbidden { other: 0 })
    );
    assert_eq!(etcd.get(KEY), Ok(None));
    put(&mut etcd, META, "fleet");
    assert_eq!(etcd.swap(&Swap { expected: Some("x"), ..swap }), Ok(differs(None)));
    assert_eq!(etcd.swap(&swap), Ok(Swapped::Done));
    assert_eq!(etcd.swap(&swap), Ok(differs(Some("new"))));
}

#[test]
fn several_keys_are_swapped_together_or_not_at_all() {
    let servers = Servers::one(&[]);
    let mut etcd = servers.open();
    put(&mut etcd, META, "fleet");
    let others = [
        Other { key: META, expected: Some("fleet"), new: Some("another") },
        Other { key: "/a", expected: None, new: Some("1") },
        Other { key: "/b", expected: None, new: None },
    ];
    let swap = Swap { others: &others, ..NEW };
    put(&mut etcd, "/b", "1");
    assert_eq!(etcd.swap(&swap), Ok(Swapped::Forbidden { other: 2 }));
    assert_eq!((etcd.get("/a"), etcd.get(KEY)), (Ok(None), Ok(None)));
    let others = [others[0], others[1]];
    let swap = Swap { others: &others, ..NEW };
    assert_eq!(etcd.swap(&swap), Ok(Swapped::Done));
    let found = [META, "/a", KEY].map(|key| etcd.get(key).unwrap());
    assert_eq!(found, ["another", "1", "new"].map(|text| Some(text.to_owned())));
}

#[test]
fn values_are_any_text_and_a_list_has_its_prefix_alone() {
    let servers = Servers::one(&[]);
    let mut etcd = servers.open();
    let values = ["", "\0", "{\"a\":\"\\\"\"}", "grün 🦀 \u{10FFFF}\n", "\u{7f}\u{80}"];
    for (number, value) in values.iter().enumerate() {
        put(&mut etcd, &format!("/é/{number}"), value);
    }
    for key in ["/", "/é", "/é0", "/ê", "z"] {
        put(&mut etcd, key, "elsewhere");
    }
    let listed = etcd.list("/é/").unwrap();
    let expected: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(number, value)| (format!("/é/{number}"), (*value).to_owned()))
        .collect();
    assert_eq!(listed, expected);
    assert_eq!(etcd.list("").unwrap().len(), 10);
    assert_eq!(etcd.list("/none/"), Ok(vec![]));
    assert_eq!(etcd.get("/é/0"), Ok(Some(String::new())));
    let others = [Other { key: "/é/1", expected: Some("\0"), new: None }];
    let empty = Swap { key: "/é/0", expected: Some(""), new: "x", others: &others };
    assert_eq!(etcd.swap(&empty), Ok(Swapped::Done));
}

#[test]
fn certificates_prove_who_is_who() {
    let others = Certificates::new();
    let servers = Servers::with_certificates(Certificates::new());
    let endpoint = servers.endpoint(0);
    let ours = servers.options();
    let kind_with = |options: EtcdOptions| Etcd::new(options).unwrap().swap(&NEW).unwrap_err().kind;

    let mut etcd = Etcd::new(ours.clone()).unwrap();
    assert_eq!(etcd.swap(&NEW), Ok(Swapped::Done));

    assert_eq!(
        kind_with(EtcdOptions { ca_file: Some(others.ca.clone()), ..ours.clone() }),
        Kind::Certificate
    );
    let anonymous = EtcdOptions { ca_file: ours.ca_file.clone(), ..options(&endpoint) };
    assert_eq!(kind_with(anonymous), Kind::Certificate);
    let of_others = others.options(options(&endpoint));
    assert_eq!(
        kind_with(EtcdOptions { ca_file: ours.ca_file.clone(), ..of_others }),
        Kind::Certificate
    );
    let by_another_name = options(&endpoint.replace("127.0.0.1", "localhost"));
    assert_eq!(
        kind_with(EtcdOptions { endpoints: by_another_name.endpoints, ..ours }),
        Kind::Certificate
    );
}

#[test]
fn files_are_read_again_for_a_new_connection() {
    let mut servers = Servers::with_certificates(Certificates::new());
    let (others, directory) = (Certificates::new(), Directory::new());
    let right = servers.options();
    let ca = directory.write("ca.pem", "");
    replace(&ca, right.ca_file.as_ref().unwrap());
    let mut etcd = Etcd::new(EtcdOptions { ca_file: Some(ca.clone()), ..right.clone() }).unwrap();
    assert_eq!(etcd.get(KEY), Ok(None));

    replace(&ca, &others.ca);
    assert_eq!(etcd.get(KEY), Ok(None), "the connection is kept");
    servers.restart(0);
    assert_eq!(etcd.get(KEY).unwrap_err().kind, Kind::Certificate);
    directory.write("ca.pem", "no certificate");
    assert_eq!(etcd.get(KEY).unwrap_err().kind, Kind::Setting);
    replace(&ca, right.ca_file.as_ref().unwrap());
    assert_eq!(etcd.get(KEY), Ok(None));

    servers.restart(0);
    assert_eq!(etcd.swap(&NEW), Ok(Swapped::Done), "one connection follows the other unnoticed");
}

#[test]
fn a_user_gets_in_with_the_password_and_stays_in_when_tokens_expire() {
    let mut servers = Servers::one(&["--auth-token-ttl=1"]);
    let directory = Directory::new();
    let password_file = directory.write("password", "secret\n");
    let options = EtcdOptions {
        user: Some("app".to_owned()),
        password_file: Some(password_file),
        ..options(&servers.endpoints())
    };
    let mut etcd = Etcd::new(options.clone()).unwrap();
    assert_eq!(etcd.get(KEY), Ok(None), "etcd asks for no user yet");

    servers.enable_auth();
    assert_eq!(etcd.swap(&NEW), Ok(Swapped::Done), "it does now");
    let error = etcd.get("/elsewhere").unwrap_err();
    assert_eq!(
        (error.kind, error.detail.as_str()),
        (Kind::Credentials, "etcdserver: permission denied")
    );

    // etcd looks for expired tokens once a second.
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(etcd.swap(&Swap { expected: Some("new"), new: "newer", ..NEW }), Ok(Swapped::Done));
    // It keeps them in memory.
    servers.restart(0);
    assert_eq!(etcd.get(KEY), Ok(Some("newer".to_owned())));
    // Every change of a user makes older tokens too old for some requests.
    servers.etcdctl(&["--user=root:toor", "role", "add", "other"]);
    assert_eq!(
        etcd.swap(&Swap { expected: Some("newer"), new: "newest", ..NEW }),
        Ok(Swapped::Done)
    );

    directory.write("password", "wrong-one");
    let mut wrong = Etcd::new(options.clone()).unwrap();
    let error = wrong.get(KEY).unwrap_err();
    assert_eq!(error.kind, Kind::Credentials);
    assert!(!error.to_string().contains("wrong-one"), "{error}");
    directory.write("password", "secret\r\n");
    assert!(wrong.get(KEY).is_ok(), "the file is read again");

    let nobody = EtcdOptions { user: None, password_file: None, ..options };
    assert_eq!(Etcd::new(nobody).unwrap().get(KEY).unwrap_err().kind, Kind::Credentials);
}

#[test]
fn without_the_gateway() {
    let error = open(&Stub::saying("404 Not Found", "404 page not found\n").endpoint())
        .get(KEY)
        .unwrap_err();
    assert_eq!(error.kind, Kind::NoGateway);
}

#[test]
fn endpoints_are_tried_in_turn() {
    let servers = Servers::one(&[]);
    let dead = format!("etcd://127.0.0.1:{}", free_port());
    let mut etcd = open(&format!("{dead},{}", servers.endpoints()));
    assert_eq!(etcd.swap(&NEW), Ok(Swapped::Done), "what was never sent can be sent elsewhere");
    assert_eq!(etcd.get(KEY), Ok(Some("new".to_owned())));

    let silent = Stub::start(|_, _| {});
    let both = options(&format!("{},{}", silent.endpoint(), servers.endpoints()));
    let mut etcd = Etcd::new(EtcdOptions { timeout: Duration::from_secs(1), ..both }).unwrap();
    assert_eq!(etcd.get(KEY), Ok(Some("new".to_owned())), "a silent one leaves time for the next");
    assert!(etcd.list("/").is_ok());
    assert_eq!(silent.requests.load(Ordering::SeqCst), 1, "the one that answered is asked first");
}

#[test]
fn members_of_two_clusters_are_told_apart() {
    let servers = Servers::one(&[]);
    let stub = Stub::saying("200 OK", FOUND);
    let both = format!("{},{}", servers.endpoints(), stub.endpoint());
    let mut etcd = open(&both);
    let error = etcd.check().unwrap_err();
    assert_eq!((error.kind, error.server), (Kind::OtherCluster, stub.endpoint()));
    // The answer of another cluster than before is none.
    let mut etcd = open(&both);
    assert_eq!(etcd.get(KEY), Ok(None));
    drop(servers);
    assert_eq!(etcd.get(KEY).unwrap_err().kind, Kind::OtherCluster);
    let dead = format!("etcd://127.0.0.1:{}", free_port());
    assert_eq!(
        open(&format!("{dead},{}", stub.endpoint())).check(),
        Ok(()),
        "as far as they answer"
    );
}

#[test]
fn a_cluster_has_an_identity_that_no_other_has() {
    let (one, other) = (Servers::one(&[]), Servers::one(&[]));
    let identity = |servers: &Servers| open(&servers.endpoints()).identity().unwrap();
    assert!(identity(&one).starts_with("etcd "));
    assert_eq!(identity(&one), identity(&one));
    assert_ne!(identity(&one), identity(&other));
}

#[test]
fn a_cluster_that_was_restored_is_told_by_its_revision() {
    // One session each: 5, 5, 4, and the same once more.
    let stub = Stub::start(|connection, socket| {
        let revision = if connection % 3 == 2 { 4 } else { 5 };
        let body = format!(r#"{{"header":{{"cluster_id":"1","revision":"{revision}"}}}}"#);
        say(socket, "200 OK", &body);
    });
    for _ in 0..2 {
        let mut seen = BTreeMap::from([("etcd 2".to_owned(), 9)]);
        let mut next = || {
            let mut etcd = open(&stub.endpoint());
            etcd.follow(seen.clone());
            let answer = etcd.get(KEY);
            seen.extend(etcd.seen());
            answer
        };
        assert_eq!((next(), next()), (Ok(None), Ok(None)));
        let error = next().unwrap_err();
        assert_eq!(error.kind, Kind::Restored);
        assert!(error.detail.contains("restored from an older state"), "{}", error.detail);
    }
}

#[test]
fn a_write_without_an_answer_is_not_repeated() {
    let servers = Servers::one(&[]);
    let closing = Stub::start(|_, socket| socket.shutdown(std::net::Shutdown::Both).unwrap());
    let silent = Stub::start(|_, _| {});
    for (stub, kind) in [(closing, Kind::Unreachable), (silent, Kind::TimedOut)] {
        let both = options(&format!("{},{}", stub.endpoint(), servers.endpoints()));
        let mut etcd = Etcd::new(EtcdOptions { timeout: Duration::from_secs(2), ..both }).unwrap();
        let error = etcd.swap(&NEW).unwrap_err();
        assert_eq!((error.kind, error.server), (kind, stub.endpoint()));
        assert_eq!(etcd.get(KEY), Ok(None));
        assert_eq!(stub.requests.load(Ordering::SeqCst), 1, "the next operation begins elsewhere");
    }
}

#[test]
fn a_late_answer_is_none_to_a_later_request() {
    let stub = Stub::start(|connection, socket| {
        if connection == 0 {
            thread::sleep(Duration::from_millis(300));
            say(socket, "200 OK", &FOUND.replace("dHJ1ZQ==", "bGF0ZQ=="));
        } else {
            thread::sleep(Duration::from_millis(100));
            say(socket, "200 OK", FOUND);
        }
    });
    let short = EtcdOptions { timeout: Duration::from_millis(200), ..options(&stub.endpoint()) };
    let mut etcd = Etcd::new(short).unwrap();
    assert_eq!(etcd.get(KEY).unwrap_err().kind, Kind::TimedOut);
    assert_eq!(etcd.get(KEY), Ok(Some("true".to_owned())));
}

#[test]
fn answers_that_are_none() {
    for body in [
        "",
        "{}",
        "[]",
        "null",
        "{\"header\":{\"cluster_id\":\"1\"},\"kvs\":[{\"key\":\"?\"}]}",
        "<html>",
    ] {
        let mut etcd = open(&Stub::saying("200 OK", body).endpoint());
        assert_eq!(etcd.get(KEY).unwrap_err().kind, Kind::Unexpected, "{body}");
        assert_eq!(etcd.swap(&NEW).unwrap_err().kind, Kind::Unexpected, "{body}");
    }
    let nothing_found = r#"{"header":{"cluster_id":"1"}}"#;
    assert_eq!(
        open(&Stub::saying("200 OK", nothing_found).endpoint()).swap(&NEW).unwrap_err().kind,
        Kind::Unexpected
    );
    for (status, kind) in [
        ("500 Internal Server Error", Kind::Unexpected),
        ("503 Service Unavailable", Kind::Unreachable),
        ("301 Moved", Kind::Unexpected),
    ] {
        assert_eq!(
            open(&Stub::saying(status, "x").endpoint()).get(KEY).unwrap_err().kind,
            kind,
            "{status}"
        );
    }
    let endless = Stub::start(|_, socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while socket.write_all(&[b' '; 1 << 16]).is_ok() {}
    });
    let long = EtcdOptions { timeout: Duration::from_secs(20), ..options(&endless.endpoint()) };
    assert_eq!(Etcd::new(long).unwrap().get(KEY).unwrap_err().kind, Kind::Unexpected);
}

#[test]
fn the_error_tells_of_all_endpoints() {
    let dead = format!("etcd://127.0.0.1:{}", free_port());
    let stub = Stub::saying("404 Not Found", "");
    let error = open(&format!("{dead},{}", stub.endpoint())).get(KEY).unwrap_err();
    assert_eq!(
        (error.kind, error.server),
        (Kind::NoGateway, format!("{dead}, {}", stub.endpoint()))
    );
    assert!(
        error.detail.contains("refused") && error.detail.contains("gateway"),
        "{}",
        error.detail
    );
}

#[test]
fn three_members_lose_the_leader_and_then_the_majority() {
    let mut servers = Servers::start(3, &[], None);
    let mut etcd = servers.open();
    assert_eq!(etcd.swap(&NEW), Ok(Swapped::Done));

    let leader = servers.leader();
    servers.kill(leader);
    wait_until("another leads", || etcd.get(KEY) == Ok(Some("new".to_owned())));
    put(&mut etcd, KEY, "newer");

    servers.kill((leader + 1) % 3);
    let mut kind = None;
    wait_until("nobody leads", || {
        kind = etcd
            .swap(&Swap { expected: Some("newer"), new: "newest", ..NEW })
            .err()
            .map(|error| error.kind);
        kind == Some(Kind::NoQuorum)
    });
    assert_eq!(
        etcd.get(KEY).unwrap_err().kind,
        Kind::NoQuorum,
        "this tells more than that others are dead"
    );

    servers.begin_start(leader);
    wait_until("a majority is back", || etcd.get(KEY).is_ok());
}

#[test]
fn no_space() {
    let servers = Servers::one(&["--quota-backend-bytes=100000"]);
    let mut etcd = servers.open();
    let large = "x".repeat(200_000);
    let mut error = None;
    wait_until("the quota is used up", || {
        error = etcd.swap(&Swap { new: &large, ..NEW }).err();
        error.is_some()
    });
    assert_eq!(error.unwrap().kind, Kind::NoSpace);
    assert!(etcd.get(KEY).is_ok(), "reading goes on");
}

#[test]
fn the_quota_is_nearly_used_up() {
    let servers = Servers::one(&["--quota-backend-bytes=8000000"]);
    let mut etcd = servers.open();
    assert_eq!(etcd.weakness(), Ok(None));
    // What was put last may not count yet, which is far less than what is left of the quota.
    let value = "x".repeat(20_000);
    let found = (0..).find_map(|number| {
        put(&mut etcd, &format!("/{number}"), &value);
        etcd.weakness().unwrap()
    });
    assert_eq!(found.unwrap().kind, WeaknessKind::Quota);
    let elsewhere = Stub::saying("404 Not Found", "404 page not found\n");
    assert_eq!(open(&elsewhere.endpoint()).weakness(), Ok(None), "only the gateway is passed on");
}

#[test]
fn options_that_make_no_sense() {
    let directory = Directory::new();
    let (ours, others) = (Certificates::new(), Certificates::new());
    let file = || Some(directory.write("file", "neither"));
    let plain = || options("etcd://127.0.0.1");
    let tls = || ours.options(options("etcds://127.0.0.1"));
    let user = Some("app".to_owned());
    for options in [
        EtcdOptions { endpoints: vec![], ..plain() },
        EtcdOptions { user: user.clone(), ..plain() },
        EtcdOptions { password_file: file(), ..plain() },
        EtcdOptions { user, password_file: Some("/nonexistent".into()), ..plain() },
        EtcdOptions { ca_file: None, ..tls() },
        EtcdOptions { ca_file: Some("/nonexistent".into()), ..tls() },
        EtcdOptions { ca_file: file(), ..tls() },
        EtcdOptions { key_file: None, ..tls() },
        EtcdOptions { cert_file: None, ..tls() },
        EtcdOptions { key_file: file(), ..tls() },
        EtcdOptions { cert_file: file(), ..tls() },
        EtcdOptions { key_file: Some(others.key.clone()), ..tls() },
    ] {
        let shown = format!("{options:?}");
        assert_eq!(Etcd::new(options).unwrap_err().kind, Kind::Setting, "{shown}");
    }
}
