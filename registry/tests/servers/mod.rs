//! Throwaway servers on free ports of the loopback: real members of etcd, certificates for them, and stubs that answer
//! what etcd should not. What waits here waits for a condition, and fails after a while.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use id_gen_core::fleet::store::Store;
use id_gen_registry::etcd::{Etcd, EtcdOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::ports::free_port;

const PATIENCE: Duration = Duration::from_secs(30);

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not after {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A directory that goes with its owner.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("id_gen_etcd_{}_{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Options without TLS and users.
pub fn options(endpoints: &str) -> EtcdOptions {
    EtcdOptions {
        endpoints: EtcdOptions::parse_endpoints(endpoints).unwrap(),
        timeout: Duration::from_secs(5),
        ca_file: None,
        cert_file: None,
        key_file: None,
        user: None,
        password_file: None,
    }
}

pub fn open(endpoints: &str) -> Etcd {
    Etcd::new(options(endpoints)).unwrap()
}

struct Member {
    arguments: Vec<String>,
    port: u16,
    process: Option<Child>,
}

/// Members of one etcd.
pub struct Servers {
    pub directory: Directory,
    members: Vec<Member>,
    tls: Option<Certificates>,
}

impl Servers {
    pub fn one(arguments: &[&str]) -> Servers {
        Servers::start(1, arguments, None)
    }

    /// One that speaks HTTPS, and only to those with a certificate.
    pub fn with_certificates(certificates: Certificates) -> Servers {
        Servers::start(1, &[], Some(certificates))
    }

    pub fn start(count: usize, more: &[&str], tls: Option<Certificates>) -> Servers {
        let directory = Directory::new();
        let ports: Vec<_> = (0..count).map(|_| (free_port(), free_port())).collect();
        let peers: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(number, (_, peer))| format!("m{number}=http://127.0.0.1:{peer}"))
            .collect();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut members = Vec::new();
        for (number, (port, peer)) in ports.iter().enumerate() {
            let data = directory.0.join(format!("m{number}"));
            let mut arguments = vec![
                format!("--name=m{number}"),
                format!("--data-dir={}", data.display()),
                format!("--listen-client-urls={scheme}://127.0.0.1:{port}"),
                format!("--advertise-client-urls={scheme}://127.0.0.1:{port}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-cluster={}", peers.join(",")),
                "--heartbeat-interval=50".to_owned(),
                "--election-timeout=500".to_owned(),
            ];
            if let Some(files) = &tls {
                arguments.extend([
                    "--client-cert-auth".to_owned(),
                    format!("--trusted-ca-file={}", files.ca.display()),
                    format!("--cert-file={}", files.cert.display()),
                    format!("--key-file={}", files.key.display()),
                ]);
            }
            arguments.extend(more.iter().map(|&argument| argument.to_owned()));
            members.push(Member { arguments, port: *port, process: None });
        }
        let mut servers = Servers { directory, members, tls };
        for number in 0..count {
            servers.begin_start(number);
        }
        for number in 0..count {
            servers.wait_for(number);
        }
        servers
    }

    pub fn begin_start(&mut self, number: usize) {
        let log = fs::File::create(self.log(number)).unwrap();
        let member = &mut self.members[number];
        let started = Command::new("etcd")
            .args(&member.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        member.process = Some(started.unwrap_or_else(|error| {
            panic!(
                "etcd can't be started ({error}): run the tests with `scripts/test core`, which gets it, or put the \
                 programs etcd and etcdctl on PATH (Debian's packages etcd-server and etcd-client)"
            )
        }));
    }

    fn wait_for(&mut self, number: usize) {
        let mut probe = Etcd::new(EtcdOptions {
            timeout: Duration::from_millis(500),
            ..self.options_of(number)
        })
        .unwrap();
        let log = self.log(number);
        let process = self.members[number].process.as_mut().unwrap();
        wait_until("etcd answers", || {
            if let Some(status) = process.try_wait().unwrap() {
                panic!("etcd ended with {status}:\n{}", fs::read_to_string(&log).unwrap());
            }
            match probe.get("/") {
                Ok(_) => true,
                // It answers, though not to us.
                Err(error) => error.detail.contains("user name is empty"),
            }
        });
    }

    fn log(&self, number: usize) -> PathBuf {
        self.directory.0.join(format!("log{number}"))
    }

    pub fn kill(&mut self, number: usize) {
        if let Some(mut process) = self.members[number].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub fn restart(&mut self, number: usize) {
        self.kill(number);
        self.begin_start(number);
        self.wait_for(number);
    }

    pub fn endpoint(&self, number: usize) -> String {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://127.0.0.1:{}", self.members[number].port)
    }

    pub fn endpoints(&self) -> String {
        let all: Vec<_> = (0..self.members.len()).map(|number| self.endpoint(number)).collect();
        all.join(",")
    }

    fn options_of(&self, number: usize) -> EtcdOptions {
        let options = options(&self.endpoint(number));
        match &self.tls {
            Some(files) => files.options(options),
            None => options,
        }
    }

    /// What a client of one server needs.
    pub fn options(&self) -> EtcdOptions {
        self.options_of(0)
    }

    pub fn open(&self) -> Etcd {
        open(&self.endpoints())
    }

    /// What etcdctl prints.
    pub fn etcdctl(&self, arguments: &[&str]) -> String {
        let urls: Vec<_> =
            self.members.iter().map(|member| format!("http://127.0.0.1:{}", member.port)).collect();
        let done = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", urls.join(",")))
            .args(arguments)
            .output()
            .expect("etcdctl is missing: run the tests with `scripts/test core`, which gets it");
        assert!(
            done.status.success(),
            "etcdctl {arguments:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    }

    /// Which server leads. While they elect one, none does.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        wait_until("one leads", || {
            leader = self.seen_leader();
            leader.is_some()
        });
        leader.unwrap()
    }

    fn seen_leader(&self) -> Option<usize> {
        let status: serde_json::Value =
            serde_json::from_str(&self.etcdctl(&["endpoint", "status", "--write-out=json"]))
                .unwrap();
        let is_leader = |one: &serde_json::Value| {
            one["Status"]["leader"] == one["Status"]["header"]["member_id"]
        };
        let url = status.as_array()?.iter().find(|one| is_leader(one))?["Endpoint"].as_str()?;
        self.members.iter().position(|member| url.ends_with(&format!(":{}", member.port)))
    }

    /// Users `root` and `app`, whose password is "secret" and who may use keys that begin with /id_gen/.
    pub fn enable_auth(&self) {
        for arguments in [
            "user add root:toor",
            "user grant-role root root",
            "user add app:secret",
            "role add app",
            "role grant-permission app readwrite --prefix /id_gen/",
            "user grant-role app app",
            "auth enable",
        ] {
            let arguments: Vec<_> = arguments.split(' ').collect();
            self.etcdctl(&arguments);
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for number in 0..self.members.len() {
            self.kill(number);
        }
    }
}

/// An authority, and a certificate for 127.0.0.1 that serves both sides.
pub struct Certificates {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
    _directory: Directory,
}

impl Certificates {
    pub fn new() -> Certificates {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &authority).unwrap();
        let directory = Directory::new();
        Certificates {
            ca: directory.write("ca.pem", &authority.pem()),
            cert: directory.write("cert.pem", &cert.pem()),
            key: directory.write("key.pem", &key.serialize_pem()),
            _directory: directory,
        }
    }

    pub fn options(&self, options: EtcdOptions) -> EtcdOptions {
        EtcdOptions {
            ca_file: Some(self.ca.clone()),
            cert_file: Some(self.cert.clone()),
            key_file: Some(self.key.clone()),
            ..options
        }
    }
}

/// Copies a file over another.
pub fn replace(file: &Path, with: &Path) {
    fs::copy(with, file).unwrap();
}

/// A server of HTTP that does with each request what a function says, given the number of the connection and the socket
/// that the request was read from.
pub struct Stub {
    port: u16,
    pub requests: Arc<AtomicUsize>,
}

impl Stub {
    pub fn start(answer: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let (counted, answer) = (Arc::clone(&requests), Arc::new(answer));
        // It ends with the process that the tests run in.
        thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let (mut socket, counted, answer) =
                    (socket.unwrap(), Arc::clone(&counted), Arc::clone(&answer));
                thread::spawn(move || {
                    while read_request(&mut socket).is_some() {
                        counted.fetch_add(1, Ordering::SeqCst);
                        answer(number, &mut socket);
                    }
                });
            }
        });
        Stub { port, requests }
    }

    /// One that always says the same.
    pub fn saying(status: &'static str, body: &'static str) -> Stub {
        Stub::start(move |_, socket| say(socket, status, body))
    }

    pub fn endpoint(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.port)
    }
}

pub fn say(socket: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    // Who asked may have gone.
    let _ = socket.write_all(
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes(),
    );
}

fn read_request(socket: &mut TcpStream) -> Option<()> {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = socket.read(&mut part).ok().filter(|&length| length > 0)?;
        text.extend_from_slice(&part[..length]);
        let so_far = String::from_utf8_lossy(&text).to_lowercase();
        let Some((head, body)) = so_far.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let wanted = length.unwrap_or("0");
        if body.len() >= wanted.trim().parse().ok()? {
            return Some(());
        }
    }
}
