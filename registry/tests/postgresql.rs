//! The registry on PostgreSQL, on servers of its own: what every call says, also when everything goes wrong.

mod ports;
mod server;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use id_gen_core::fleet::store::{Other, Store, StoreError, StoreErrorKind, Swap, Swapped};
use id_gen_registry::postgresql::{LibPq, Postgresql, PostgresqlOptions};
use server::{PATIENCE, Server, output, registry, wait_for};

/// Where nothing is going to answer.
const SHORT: Duration = Duration::from_millis(500);

fn put(store: &mut Postgresql, key: &str, expected: Option<&str>, new: &str) -> Swapped {
    store.swap(&Swap { key, expected, new, others: &[] }).unwrap()
}

const FORBIDDEN: Swapped = Swapped::Forbidden { other: 0 };

fn stays<'a>(key: &'a str, expected: Option<&'a str>) -> Other<'a> {
    Other { key, expected, new: None }
}

fn differs(found: Option<&str>) -> Swapped {
    Swapped::Differs { found: found.map(str::to_owned) }
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T, StoreError>, kind: StoreErrorKind) -> StoreError {
    let error = result.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(!error.detail.contains('\n') && !error.detail.is_empty(), "{error:?}");
    error
}

#[test]
fn every_call_says_what_happened() {
    let server = Server::start("");
    let mut store = server.registry();
    let error = fails(store.get("a"), StoreErrorKind::NoTable);
    assert_eq!(error.server, format!("{}:{}", server.directory.display(), server.port));
    store.create_table().unwrap();
    store.create_table().unwrap();

    assert_eq!(store.get("a").unwrap(), None);
    assert_eq!(put(&mut store, "a", Some("0"), "1"), differs(None));
    assert_eq!(put(&mut store, "a", None, "1"), Swapped::Done);
    assert_eq!(put(&mut store, "a", None, "2"), differs(Some("1")));
    assert_eq!(put(&mut store, "a", Some("0"), "2"), differs(Some("1")));
    assert_eq!(put(&mut store, "a", Some("1"), "ä '\\\n"), Swapped::Done);
    assert_eq!(store.get("a").unwrap().as_deref(), Some("ä '\\\n"));

    put(&mut store, "meta", None, "m");
    let mut guarded = |key: &str, expected: Option<&str>, (other, value)| {
        store.swap(&Swap { key, expected, new: "2", others: &[stays(other, Some(value))] }).unwrap()
    };
    assert_eq!(guarded("b", None, ("meta", "other")), FORBIDDEN);
    assert_eq!(guarded("b", None, ("nothing", "m")), FORBIDDEN);
    assert_eq!(guarded("b", Some("1"), ("meta", "m")), differs(None));
    assert_eq!(guarded("b", None, ("meta", "m")), Swapped::Done);
    assert_eq!(guarded("b", None, ("meta", "m")), differs(Some("2")));
    assert_eq!(guarded("b", Some("2"), ("meta", "other")), FORBIDDEN);
    assert_eq!(guarded("b", Some("2"), ("meta", "m")), Swapped::Done);

    for key in ["/f%/b", "/f%/a", "/f_/a", "/f%"] {
        put(&mut store, key, None, key);
    }
    let pair = |key: &str| (key.to_owned(), key.to_owned());
    assert_eq!(store.list("/f%/").unwrap(), [pair("/f%/a"), pair("/f%/b")]);
    assert_eq!(store.list("none").unwrap(), []);
    fails(store.get("a\0b"), StoreErrorKind::Unexpected);

    // The operator chooses the schema, and what a role has as defaults takes nothing away.
    server.psql(
        "CREATE SCHEMA elsewhere;
         ALTER ROLE postgres SET synchronous_commit = off;
         ALTER ROLE postgres SET default_transaction_isolation = 'serializable'",
    );
    let conninfo = server.conninfo("postgres") + " options=-csearch_path=elsewhere";
    let mut elsewhere = registry(&conninfo, PATIENCE);
    fails(elsewhere.get("a"), StoreErrorKind::NoTable);
    elsewhere.create_table().unwrap();
    assert_eq!(elsewhere.get("a").unwrap(), None);
    let durability = elsewhere.durability().unwrap();
    assert_eq!((durability.timeline, durability.synchronous_commit.as_str()), (1, "on"));
    assert_eq!((durability.standbys, durability.physical_slots), (0, 0));
}

#[test]
fn a_table_has_an_identity_that_a_copy_has_not() {
    let server = Server::start("");
    let mut store = server.registry();
    fails(store.identity(), StoreErrorKind::NoTable);
    store.create_table().unwrap();
    let identity = store.identity().unwrap();
    assert!(identity.starts_with("postgresql "));
    assert_eq!(server.registry().identity().unwrap(), identity);
    put(&mut store, "a", None, "1");
    server.psql(
        "ALTER TABLE id_gen_registry RENAME TO former;
         CREATE TABLE id_gen_registry (LIKE former INCLUDING ALL);
         INSERT INTO id_gen_registry TABLE former",
    );
    let copied = server.registry().identity().unwrap();
    assert_ne!(copied, identity);
    assert_eq!(store.seen(), Some((identity.clone(), 1)));
    // A session does not change over to it.
    server.psql(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    );
    let error = fails(store.get("a"), StoreErrorKind::OtherCluster);
    assert!(error.detail.contains(&identity) && error.detail.contains(&copied), "{error}");
    // A primary that was replaced by a promoted standby; what was seen of others does not count.
    let follow = |identity: &str, timeline| {
        let mut store = server.registry();
        store.follow(BTreeMap::from([(identity.to_owned(), timeline)]));
        store.get("a")
    };
    assert_eq!(follow(&copied, 1), Ok(Some("1".to_owned())));
    assert_eq!(follow(&identity, 2), Ok(Some("1".to_owned())));
    fails(follow(&copied, 2), StoreErrorKind::FormerPrimary);
    // Nor is anything written in a session that is open already.
    let mut store = server.registry();
    store.identity().unwrap();
    store.follow(BTreeMap::from([(copied, 2)]));
    let written = store.swap(&Swap { key: "b", expected: None, new: "2", others: &[] });
    fails(written, StoreErrorKind::FormerPrimary);
    assert_eq!(server.registry().get("b"), Ok(None));
}

/// Plants a copy of every function, operator and view of PostgreSQL's that others can make, and of a type.
const PLANT: &str = "
    CREATE SCHEMA planted;
    DO $plant$
    DECLARE
        each record;
    BEGIN
        FOR each IN
            SELECT format('CREATE FUNCTION planted.%I(%s) RETURNS %s LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION ''planted''; END$$',
                          p.proname, pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid)) AS statement
              FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace
             UNION ALL
            SELECT 'CREATE FUNCTION planted.quote_ident(name) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION ''planted''; END$$'
             UNION ALL
            SELECT format('CREATE OPERATOR planted.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = planted.%I)',
                          o.oprname, o.oprleft::regtype, o.oprright::regtype, p.proname)
              FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode WHERE o.oprleft <> 0
             UNION ALL
            SELECT format('CREATE VIEW planted.%I AS SELECT', c.relname)
              FROM pg_class c WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
             UNION ALL
            SELECT 'CREATE DOMAIN planted.text AS integer'
        LOOP
            BEGIN EXECUTE each.statement; EXCEPTION WHEN OTHERS THEN NULL; END;
        END LOOP;
    END
    $plant$";

#[test]
fn no_function_operator_or_table_of_another_role_is_used() {
    let server = Server::start("");
    server.psql(PLANT);
    let planted =
        "SELECT count(*) > 2000 FROM pg_proc WHERE pronamespace = 'planted'::regnamespace";
    assert_eq!(server.psql(planted), "t");
    server.psql("CREATE SCHEMA \"of $$'s\"; ALTER ROLE postgres SET search_path = \"of $$'s\", planted, pg_catalog");
    let mut store = server.registry();
    store.durability().unwrap();
    fails(store.get("a"), StoreErrorKind::NoTable);
    store.create_table().unwrap();
    assert_eq!(put(&mut store, "a", None, "1"), Swapped::Done);
    assert_eq!(put(&mut store, "a", Some("1"), "2"), Swapped::Done);
    assert_eq!(put(&mut store, "a", Some("1"), "2"), differs(Some("2")));
    assert_eq!(store.list("a").unwrap(), [("a".to_owned(), "2".to_owned())]);
    let mut nowhere =
        registry(&(server.conninfo("postgres") + " options=-csearch_path=none"), PATIENCE);
    fails(nowhere.create_table(), StoreErrorKind::Setting);
}

#[test]
fn a_table_that_no_fleet_uses_is_closed_to_other_roles() {
    let server = Server::start("");
    let privileges = || {
        server.psql("SELECT count(*) FROM pg_class c, aclexplode(c.relacl) x WHERE c.relname = 'id_gen_registry' AND x.grantee <> c.relowner")
    };
    let grant = "GRANT SELECT, INSERT ON id_gen_registry TO PUBLIC, guest";
    server
        .psql("CREATE ROLE guest; CREATE TABLE id_gen_registry (key text PRIMARY KEY, value text)");
    server.psql(grant);
    assert_eq!(privileges(), "4");
    let mut store = server.registry();
    store.create_table().unwrap();
    assert_eq!(privileges(), "0");
    // Servers of one fleet may be several roles.
    put(&mut store, "a", None, "1");
    server.psql(grant);
    store.create_table().unwrap();
    assert_eq!(privileges(), "4");
}

#[test]
fn what_another_role_made_first_is_not_taken() {
    let server = Server::start("");
    server.psql(
        "CREATE ROLE stranger; CREATE ROLE fleet LOGIN; GRANT CREATE ON SCHEMA public TO stranger, fleet; SET ROLE stranger; \
         CREATE FUNCTION public.trap() RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'trap'; END$$; \
         CREATE VIEW public.id_gen_registry AS SELECT public.trap() AS key, ''::text AS value",
    );
    let superuser = server.conninfo("postgres");
    let user = superuser.replace("user=postgres", "user=fleet");
    for conninfo in [&superuser, &user] {
        let mut store = registry(conninfo, PATIENCE);
        let error = fails(store.get("a"), StoreErrorKind::Setting);
        assert_eq!(error.detail, "public.id_gen_registry is not a table");
        fails(store.create_table(), StoreErrorKind::Setting);
    }
    server.psql(
        "SET ROLE stranger; DROP VIEW public.id_gen_registry; \
         CREATE TABLE public.id_gen_registry (key text PRIMARY KEY, value text); \
         GRANT ALL ON public.id_gen_registry TO PUBLIC",
    );
    for conninfo in [&superuser, &user] {
        let error = fails(registry(conninfo, PATIENCE).create_table(), StoreErrorKind::Credentials);
        assert!(error.detail.contains("belongs to role stranger, not to role"), "{error}");
    }
    server.psql(
        "SET ROLE stranger; ALTER TABLE public.id_gen_registry ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY trap ON public.id_gen_registry USING (public.trap() = key); \
         INSERT INTO public.id_gen_registry VALUES ('a', '1')",
    );
    let error = fails(registry(&user, PATIENCE).get("a"), StoreErrorKind::Credentials);
    assert!(error.detail.contains("row-level security"), "{error}");
}

#[test]
fn no_swap_is_lost_and_none_outlives_its_fleet() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 50;
    let server = Server::start("");
    let mut store = server.registry();
    store.create_table().unwrap();
    put(&mut store, "meta", None, "1");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut store = server.registry();
                let mut value: Option<String> = None;
                for _ in 0..ROUNDS {
                    loop {
                        let next =
                            value.as_ref().map_or(0, |text| text.parse::<usize>().unwrap()) + 1;
                        let next = next.to_string();
                        let others = &[stays("meta", Some("1"))];
                        let swap =
                            Swap { key: "n", expected: value.as_deref(), new: &next, others };
                        match store.swap(&swap).unwrap() {
                            Swapped::Done => {
                                value = Some(next);
                                break;
                            }
                            Swapped::Differs { found } => {
                                assert_ne!(found, value);
                                value = found;
                            }
                            Swapped::Forbidden { .. } => panic!("nobody changed it"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(store.get("n").unwrap(), Some((THREADS * ROUNDS).to_string()));

    // All swap under the fleet that they read, while one fleet follows another: what is written after a fleet is made was
    // not written under the one before.
    thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let (mut store, key) = (server.registry(), format!("k{thread}"));
                for round in 0.. {
                    let fleet = store.get("meta").unwrap().unwrap();
                    if fleet == "end" {
                        break;
                    }
                    let expected = store.get(&key).unwrap();
                    let new = format!("{fleet} {round}");
                    let others = &[stays("meta", Some(&fleet))];
                    let swap = Swap { key: &key, expected: expected.as_deref(), new: &new, others };
                    store.swap(&swap).unwrap();
                }
            });
        }
        for fleet in 1..=ROUNDS {
            let next = if fleet == ROUNDS { "end".to_owned() } else { (fleet + 1).to_string() };
            assert_eq!(put(&mut store, "meta", Some(&fleet.to_string()), &next), Swapped::Done);
            let before = store.list("k").unwrap();
            for _ in 0..5 {
                let written =
                    store.list("k").unwrap().into_iter().filter(|pair| !before.contains(pair));
                written.for_each(|(_, value)| {
                    assert!(value.starts_with(&format!("{next} ")), "{value}")
                });
            }
        }
    });
}

/// What a session waits for, once it does.
fn waits(server: &Server, count: &str, event: &str) {
    wait_for(event, || {
        let waiting = format!("SELECT count(*) FROM pg_stat_activity WHERE wait_event = '{event}'");
        server.psql(&waiting) == count
    });
}

/// Does something in a transaction that commits when it is told to, or by itself after longer than a test waits for
/// anything.
fn hold(server: &Server, statement: &str) {
    server.psql(&format!(
        "DO $$ BEGIN
             {statement};
             BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
         END $$"
    ));
}

fn let_go(server: &Server) {
    server.psql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
}

#[test]
fn a_swap_that_waited_looks_again() {
    let server = Server::start("");
    let mut store = server.registry();
    store.create_table().unwrap();
    put(&mut store, "meta", None, "1");
    put(&mut store, "a", None, "1");
    let swap = |expected: Option<&'static str>, key: &'static str| {
        let mut store = server.registry();
        move || {
            let others = &[stays("meta", Some("1"))];
            store.swap(&Swap { key, expected, new: "mine", others }).unwrap()
        }
    };
    // Someone else's transaction writes; the swap waits for it and finds what that left.
    let cases = [
        (
            "UPDATE id_gen_registry SET value = '2' WHERE key = 'a'",
            Some("1"),
            "a",
            differs(Some("2")),
        ),
        ("INSERT INTO id_gen_registry VALUES ('b', '2')", None, "b", differs(Some("2"))),
    ];
    for (write, expected, key, outcome) in cases {
        thread::scope(|scope| {
            let writer = scope.spawn(|| hold(&server, write));
            waits(&server, "1", "PgSleep");
            let swapper = scope.spawn(swap(expected, key));
            waits(&server, "1", "transactionid");
            let_go(&server);
            writer.join().unwrap();
            assert_eq!(swapper.join().unwrap(), outcome);
        });
    }

    // While it waits for its own row, the fleet becomes another one, and somebody sees that before the swap took place.
    put(&mut store, "d", None, "1");
    thread::scope(|scope| {
        scope.spawn(|| hold(&server, "PERFORM FROM id_gen_registry WHERE key = 'd' FOR UPDATE"));
        waits(&server, "1", "PgSleep");
        let swapper = scope.spawn(swap(Some("1"), "d"));
        waits(&server, "1", "transactionid");
        assert_eq!(put(&mut store, "meta", Some("1"), "2"), Swapped::Done);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let seen = store.list("").unwrap();
        assert!(seen.contains(&pair("d", "1")) && seen.contains(&pair("meta", "2")), "{seen:?}");
        let_go(&server);
        assert_eq!(swapper.join().unwrap(), FORBIDDEN);
    });
}

#[test]
fn several_keys_are_swapped_together_or_not_at_all() {
    let server = Server::start("");
    let mut store = server.registry();
    store.create_table().unwrap();
    put(&mut store, "a", None, "1");
    let others = [
        Other { key: "a", expected: Some("1"), new: Some("2") },
        Other { key: "b", expected: None, new: Some("\"ä\\") },
        stays("c", None),
    ];
    let swap = Swap { key: "d", expected: None, new: "1", others: &others };
    put(&mut store, "c", None, "1");
    assert_eq!(store.swap(&swap).unwrap(), Swapped::Forbidden { other: 2 });
    put(&mut store, "b", None, "1");
    assert_eq!(store.swap(&swap).unwrap(), Swapped::Forbidden { other: 1 });
    assert_eq!(store.get("d").unwrap(), None);
    server.psql("DELETE FROM id_gen_registry WHERE key IN ('b', 'c')");
    assert_eq!(store.swap(&swap).unwrap(), Swapped::Done);
    let texts = [("a", "2"), ("b", "\"ä\\"), ("d", "1")];
    let all: Vec<_> = texts.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!(store.list("").unwrap(), all);
}

/// Each of two takes its key only if the other one is not taken: a number and a shard of it.
#[test]
fn of_two_that_exclude_each_other_one_is_swapped() {
    let server = Server::start("");
    server.registry().create_table().unwrap();
    let rounds = 0..200;
    let at_once = Barrier::new(2);
    let swap = |mine: &str, other: &str| {
        let mut store = server.registry();
        let mut swap = |round: u32| {
            let (key, other) = (format!("{mine}/{round}"), format!("{other}/{round}"));
            let others = &[stays(&other, None)];
            at_once.wait();
            store.swap(&Swap { key: &key, expected: None, new: "1", others }).unwrap()
                == Swapped::Done
        };
        rounds.clone().map(&mut swap).collect::<Vec<_>>()
    };
    let (ones, others) = thread::scope(|scope| {
        let one = scope.spawn(|| swap("n", "s"));
        let others = swap("s", "n");
        (one.join().unwrap(), others)
    });
    for (round, (one, other)) in ones.into_iter().zip(others).enumerate() {
        assert!(one != other, "round {round}: {one}, {other}");
    }
}

#[test]
fn passwords_are_found_and_never_told() {
    let server = Server::start("password_encryption = 'scram-sha-256'");
    let mut store = server.registry();
    store.create_table().unwrap();
    server.psql("CREATE ROLE fleet LOGIN PASSWORD 'right horse'; CREATE ROLE guest LOGIN PASSWORD 'right horse'");
    server.psql("GRANT SELECT, INSERT, UPDATE ON id_gen_registry TO fleet");
    server.file(
        "data/pg_hba.conf",
        "local all postgres trust\nhost postgres all 127.0.0.1/32 scram-sha-256\n",
        true,
    );
    server.reload();
    let port = server.port;
    let given = |user: &str, more: &str| {
        format!("host=127.0.0.1 port={port} user={user} dbname=postgres {more}")
    };

    let passwords = server.file("passwords", &format!("127.0.0.1:{port}:*:*:right horse\n"), false);
    let passfile = format!("passfile={}", passwords.display());
    wait_for("the reload", || registry(&given("fleet", ""), PATIENCE).get("a").is_err());
    let mut fleet = registry(&given("fleet", &passfile), PATIENCE);
    assert_eq!(put(&mut fleet, "a", None, "1"), Swapped::Done);
    let others = &[stays("a", Some("1"))];
    assert_eq!(fleet.swap(&Swap { key: "b", expected: None, new: "2", others }), Ok(Swapped::Done));
    assert_eq!(fleet.durability().unwrap().synchronous_standbys, None);

    let uri = format!("postgresql://fleet:right%20horse@127.0.0.1:{port}/postgres");
    assert_eq!(registry(&uri, PATIENCE).get("a").unwrap().as_deref(), Some("1"));

    for (conninfo, kind) in [
        (given("fleet", "password='wrong horse'"), StoreErrorKind::Credentials),
        (given("fleet", "passfile=/nowhere"), StoreErrorKind::Credentials),
        (given("guest", "password='right horse'"), StoreErrorKind::Credentials),
        (given("fleet", "dbname=other password='right horse'"), StoreErrorKind::Credentials),
        (server.conninfo("missing"), StoreErrorKind::Setting),
        (given("fleet", "sslmode=maybe password='wrong horse'"), StoreErrorKind::Setting),
        (given("fleet", "port=none"), StoreErrorKind::Setting),
    ] {
        let error = fails(registry(&conninfo, PATIENCE).get("a"), kind);
        assert!(!error.to_string().contains("horse"), "{error}");
    }
    let refused = |conninfo: &str| {
        let options = PostgresqlOptions { conninfo: conninfo.to_owned(), timeout: PATIENCE };
        assert!(!format!("{options:?}").contains("horse"));
        fails(Postgresql::new(server::libpq(), options), StoreErrorKind::Address)
    };
    assert!(!refused("host=a password=right horse").detail.contains("horse"));
    assert!(!refused("postgresql://u:right horse@[a").detail.contains("horse"));
    assert!(refused("hots=a").detail.contains("hots"));
    fails(LibPq::load(Some(Path::new("/nowhere/libpq.so"))), StoreErrorKind::Setting);
}

/// libpq finds the file in the environment, which threads must not change, so a process of its own is asked.
#[test]
fn services_are_found() {
    const ASKED: &str = "ID_GEN_ASKED_FOR_SERVICES";
    if std::env::var_os(ASKED).is_some() {
        fails(registry("service=fleet", PATIENCE).get("a"), StoreErrorKind::NoTable);
        fails(registry("service=nobody", PATIENCE).get("a"), StoreErrorKind::Setting);
        return;
    }
    let server = Server::start("");
    let service =
        format!("[fleet]\nhost=127.0.0.1\nport={}\nuser=postgres\ndbname=postgres\n", server.port);
    let file = server.file("services", &service, false);
    let mut child = Command::new(std::env::current_exe().unwrap());
    output(
        child.args(["--exact", "services_are_found"]).env(ASKED, "1").env("PGSERVICEFILE", file),
    );
}

/// libpq says so on standard error, so a process of its own is asked.
#[test]
fn a_password_file_that_others_may_read_is_complained_of_once() {
    const ASKED: &str = "ID_GEN_ASKED_WITH_OPEN_PASSWORDS";
    if let Ok(conninfo) = std::env::var(ASKED) {
        let mut store = registry(&conninfo, PATIENCE);
        for _ in 0..3 {
            let error = fails(store.get("a"), StoreErrorKind::Credentials);
            assert!(error.detail.contains("passwords\" is ignored"), "{}", error.detail);
        }
        let (_, passwords) = conninfo.split_once("passfile=").unwrap();
        fs::set_permissions(passwords, Permissions::from_mode(0o600)).unwrap();
        fails(store.get("a"), StoreErrorKind::NoTable);
        return;
    }
    let server = Server::start("password_encryption = 'scram-sha-256'");
    server.psql("CREATE ROLE fleet LOGIN PASSWORD 'right horse'");
    server.file("data/pg_hba.conf", "host postgres all 127.0.0.1/32 scram-sha-256\n", true);
    server.reload();
    let port = server.port;
    let passwords = server.file("passwords", "*:*:*:*:right horse\n", false);
    let conninfo =
        |more: &str| format!("host=127.0.0.1 port={port} user=fleet dbname=postgres {more}");
    wait_for("the reload", || {
        registry(&conninfo(""), PATIENCE).get("a").unwrap_err().kind == StoreErrorKind::Credentials
    });
    fs::set_permissions(&passwords, Permissions::from_mode(0o644)).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_password_file_that_others_may_read_is_complained_of_once"]);
    let child =
        child.env(ASKED, conninfo(&format!("passfile={}", passwords.display()))).output().unwrap();
    let complaints = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}{complaints}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(complaints.matches("has group or world access").count(), 1, "{complaints}");
}

#[test]
fn a_server_that_is_away_is_missed_in_time() {
    let server = Server::start("");
    let mut store = server.registry();
    store.create_table().unwrap();
    put(&mut store, "a", None, "1");
    // The session is noticed to be gone before anything is sent on it.
    server.down();
    fails(store.get("a"), StoreErrorKind::Unreachable);
    server.up();
    assert_eq!(store.get("a").unwrap().as_deref(), Some("1"));
    server.down();
    server.up();
    assert_eq!(store.get("a").unwrap().as_deref(), Some("1"));

    let mut hasty = registry(&server.conninfo("postgres"), SHORT);
    assert_eq!(hasty.get("a").unwrap().as_deref(), Some("1"));
    let mut new = registry(&format!("host=127.0.0.1 port={} user=postgres", server.port), SHORT);
    server.freeze();
    fails(
        hasty.swap(&Swap { key: "a", expected: Some("1"), new: "2", others: &[] }),
        StoreErrorKind::TimedOut,
    );
    fails(hasty.get("a"), StoreErrorKind::TimedOut);
    let error = fails(new.get("a"), StoreErrorKind::TimedOut);
    assert_eq!(error.server, format!("127.0.0.1:{}", server.port));
    server.thaw();
    // What was sent takes place, late, and is no answer to what is asked now.
    wait_for("the late write", || server.psql("SELECT value FROM id_gen_registry") == "2");
    wait_for("an answer", || hasty.get("a") == Ok(Some("2".to_owned())));
    assert_eq!(hasty.get("none").unwrap(), None);

    // A lock that someone holds.
    thread::scope(|scope| {
        scope.spawn(|| hold(&server, "LOCK id_gen_registry"));
        waits(&server, "1", "PgSleep");
        fails(hasty.get("a"), StoreErrorKind::TimedOut);
        let_go(&server);
    });

    // Of several servers, one that does not answer and one that refuses take their shares alone.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf_port = deaf.local_addr().unwrap().port();
    let hosts = format!(
        "host=127.0.0.1,127.0.0.1,127.0.0.1 port={deaf_port},1,{} user=postgres",
        server.port
    );
    assert_eq!(registry(&hosts, SHORT * 6).get("a").unwrap().as_deref(), Some("2"));
    let none = format!("host=127.0.0.1,127.0.0.1 port=1,{deaf_port} user=postgres");
    let error = fails(registry(&none, SHORT).get("a"), StoreErrorKind::TimedOut);
    assert_eq!(error.server, format!("127.0.0.1:1, 127.0.0.1:{deaf_port}"));
}

#[test]
fn standbys_are_never_asked_but_waited_for() {
    let primary = Server::start("");
    let mut store = primary.registry();
    store.create_table().unwrap();
    put(&mut store, "a", None, "1");
    let standby = primary.standby("");
    fails(standby.registry().get("a"), StoreErrorKind::ReadOnly);
    let both = format!(
        "host={},{} port={},{} user=postgres dbname=postgres target_session_attrs=any",
        standby.directory.display(),
        primary.directory.display(),
        standby.port,
        primary.port
    );
    let mut found = registry(&both, PATIENCE);
    assert_eq!(found.get("a").unwrap().as_deref(), Some("1"));
    wait_for("the standby", || store.durability().unwrap().standbys == 1);
    let durability = store.durability().unwrap();
    assert_eq!(
        (durability.synchronous_standbys, durability.synchronous_standby_names.as_str()),
        (Some(0), "")
    );

    primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.reload();
    wait_for("the synchronous standby", || {
        store.durability().unwrap().synchronous_standbys == Some(1)
    });
    assert_eq!(put(&mut store, "a", Some("1"), "2"), Swapped::Done);
    standby.down();
    // Done here and nowhere else.
    let canceled = thread::scope(|scope| {
        let swapper = scope
            .spawn(|| store.swap(&Swap { key: "a", expected: Some("2"), new: "3", others: &[] }));
        waits(&primary, "1", "SyncRep");
        primary.psql(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
        );
        swapper.join().unwrap()
    });
    let error = fails(canceled, StoreErrorKind::TimedOut);
    assert!(error.detail.contains("synchronous replication"), "{error}");
    assert_eq!(store.get("a").unwrap().as_deref(), Some("3"));
    let mut hasty = registry(&primary.conninfo("postgres"), SHORT);
    let swap = Swap { key: "a", expected: Some("3"), new: "4", others: &[] };
    fails(hasty.swap(&swap), StoreErrorKind::TimedOut);
    assert_eq!(hasty.get("a").unwrap().as_deref(), Some("3"));

    // A server that was made to take no more writes is not asked either, nor one that is about to.
    primary.psql("ALTER SYSTEM SET default_transaction_read_only = on");
    primary.reload();
    wait_for("the reload", || {
        hasty.swap(&swap).is_err_and(|error| error.kind == StoreErrorKind::ReadOnly)
    });
    fails(hasty.get("a"), StoreErrorKind::ReadOnly);
}

/// A certificate authority, and a certificate of it for `localhost` alone.
fn certificates(directory: &Path) {
    let openssl = |arguments: &str| {
        output(Command::new("openssl").args(arguments.split(' ')).current_dir(directory))
    };
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("{new} -x509 -subj /CN=ca -days 2 -keyout ca.key -out ca.crt"));
    openssl(&format!("{new} -x509 -subj /CN=other -days 2 -keyout other.key -out other.crt"));
    openssl(&format!("{new} -subj /CN=localhost -keyout server.key -out server.csr"));
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out server.crt",
    );
}

#[test]
fn certificates_are_checked() {
    let server = Server::start("");
    certificates(&server.directory);
    for name in ["server.key", "server.crt", "ca.crt"] {
        let text = std::fs::read_to_string(server.directory.join(name)).unwrap();
        server.file(&format!("data/{name}"), &text, true);
    }
    server.configure("ssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\nssl_ca_file = 'ca.crt'");
    server.down();
    server.up();
    let conninfo = |host: &str, ca: &str, more: &str| {
        let (ca, port) = (server.directory.join(ca), server.port);
        let verified = format!("sslmode=verify-full sslrootcert={}", ca.display());
        format!(
            "host={host} hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres {verified} {more}"
        )
    };
    let mut store = registry(&conninfo("localhost", "ca.crt", ""), PATIENCE);
    store.create_table().unwrap();
    // Longer than a TLS record, than libpq's buffers and than those of the sockets.
    server.psql("INSERT INTO id_gen_registry SELECT 'k' || n, repeat('v', 1000) FROM generate_series(1, 5000) n");
    assert_eq!(store.list("k").unwrap().len(), 5_000);
    let long = "v".repeat(5_000_000);
    assert_eq!(put(&mut store, "long", None, &long), Swapped::Done);
    assert_eq!(store.get("long").unwrap(), Some(long));

    for refused in [
        conninfo("elsewhere", "ca.crt", ""),
        conninfo("localhost", "other.crt", ""),
        conninfo("localhost", "missing.crt", ""),
    ] {
        fails(registry(&refused, PATIENCE).get("a"), StoreErrorKind::Certificate);
    }
    // One that must show a certificate, and has none, or a wrong one.
    server.file("data/pg_hba.conf", "local all all trust\nhostssl all all all cert\n", true);
    server.reload();
    let without = conninfo("localhost", "ca.crt", "");
    wait_for("the reload", || registry(&without, PATIENCE).get("a").is_err());
    fails(registry(&without, PATIENCE).get("a"), StoreErrorKind::Certificate);
    let wrong = format!("sslcert={0}/other.crt sslkey={0}/other.key", server.directory.display());
    fails(
        registry(&conninfo("localhost", "ca.crt", &wrong), PATIENCE).get("a"),
        StoreErrorKind::Certificate,
    );
    // One without TLS.
    server.psql("ALTER SYSTEM SET ssl = off");
    server.reload();
    wait_for("the reload", || server.psql("SHOW ssl") == "off");
    fails(registry(&without, PATIENCE).get("a"), StoreErrorKind::Certificate);
}
