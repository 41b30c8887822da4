//! A throwaway PostgreSQL server: made with the programs beside the `pg_config` that `ID_GEN_PG_CONFIG` names, listening
//! on loopback and on a socket in its own directory, gone when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use id_gen_registry::postgresql::{LibPq, Postgresql, PostgresqlOptions};

use crate::ports::free_port;

/// Longer than anything takes that succeeds.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Server {
    pub directory: PathBuf,
    pub port: u16,
}

fn pg_config(option: &str) -> PathBuf {
    let program = std::env::var("ID_GEN_PG_CONFIG").expect(
        "ID_GEN_PG_CONFIG has to name the pg_config of a PostgreSQL server; `make test` sets it",
    );
    PathBuf::from(output(Command::new(program).arg(option)).trim())
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What a program prints. It has to succeed.
pub fn output(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program run as the user that servers run as: PostgreSQL refuses root.
pub fn as_server(program: impl AsRef<Path>) -> Command {
    // SAFETY: it takes nothing and can't fail.
    let mut command = if unsafe { libc::geteuid() } == 0 {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program.as_ref());
        command
    } else {
        Command::new(program.as_ref())
    };
    command.current_dir("/").env("LC_ALL", "C");
    command
}

fn program(name: &str) -> Command {
    as_server(pg_config("--bindir").join(name))
}

/// The libpq beside the server if it has one of its own, else the system's.
pub fn libpq() -> LibPq {
    let own = pg_config("--libdir").join("libpq.so.5");
    LibPq::load(own.exists().then_some(own.as_path())).unwrap()
}

pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Server {
    fn new() -> Server {
        let directory = output(as_server("mktemp").args(["-d", "/tmp/id_gen-registry.XXXXXX"]));
        Server { directory: PathBuf::from(directory.trim()), port: free_port() }
    }

    /// A new server, with lines for its configuration.
    pub fn start(conf: &str) -> Server {
        let server = Server::new();
        output(
            program("initdb")
                .args(["--no-sync", "--auth=trust", "--username=postgres", "-D"])
                .arg(server.data()),
        );
        server.configure(conf);
        server.up();
        server
    }

    /// A standby of it.
    pub fn standby(&self, conf: &str) -> Server {
        let standby = Server::new();
        let mut backup = program("pg_basebackup");
        backup.args([
            "--no-sync",
            "--checkpoint=fast",
            "--write-recovery-conf",
            "-d",
            &self.conninfo("postgres"),
        ]);
        output(backup.arg("-D").arg(standby.data()));
        standby.configure(conf);
        standby.up();
        standby
    }

    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub fn configure(&self, conf: &str) {
        let text = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\nfsync = off\n{conf}\n",
            self.port,
            self.directory.display()
        );
        let path = self.data().join("postgresql.conf");
        fs::write(&path, fs::read_to_string(&path).unwrap() + &text).unwrap();
    }

    pub fn up(&self) {
        let log = self.directory.join("log");
        output(
            program("pg_ctl").args(["start", "-w", "-s", "-D"]).arg(self.data()).arg("-l").arg(log),
        );
    }

    pub fn down(&self) {
        output(program("pg_ctl").args(["stop", "-m", "fast", "-s", "-D"]).arg(self.data()));
    }

    pub fn reload(&self) {
        output(program("pg_ctl").args(["reload", "-s", "-D"]).arg(self.data()));
    }

    /// As the superuser, over the socket.
    pub fn conninfo(&self, database: &str) -> String {
        format!(
            "host={} port={} user=postgres dbname={database}",
            self.directory.display(),
            self.port
        )
    }

    pub fn psql(&self, sql: &str) -> String {
        let mut psql = program("psql");
        psql.args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            &self.conninfo("postgres"),
            "-c",
            sql,
        ]);
        output(&mut psql).trim().to_owned()
    }

    /// A registry on it, without its table.
    pub fn registry(&self) -> Postgresql {
        registry(&self.conninfo("postgres"), PATIENCE)
    }

    /// A file that the server may read and nobody else, or may belong to the test.
    pub fn file(&self, name: &str, text: &str, of_server: bool) -> PathBuf {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let path = self.directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if of_server {
            let owner = fs::metadata(self.data()).unwrap();
            chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        path
    }

    fn postmaster(&self) -> Option<i32> {
        fs::read_to_string(self.data().join("postmaster.pid")).ok()?.lines().next()?.parse().ok()
    }

    /// The postmaster and its children.
    fn processes(&self) -> Vec<i32> {
        let Some(postmaster) = self.postmaster() else { return Vec::new() };
        let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"));
        let children = children.unwrap_or_default();
        std::iter::once(postmaster)
            .chain(children.split_whitespace().map(|pid| pid.parse().unwrap()))
            .collect()
    }

    fn signal(&self, signal: i32) {
        for process in self.processes() {
            // SAFETY: the processes of this server, which only this test stops.
            unsafe { libc::kill(process, signal) };
        }
    }

    /// Stops all its processes, but not its sockets.
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn thaw(&self) {
        self.signal(libc::SIGCONT);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.thaw();
        if self.postmaster().is_some() {
            run(program("pg_ctl").args(["stop", "-m", "immediate", "-s", "-D"]).arg(self.data()));
        }
        drop(fs::remove_dir_all(&self.directory));
    }
}

pub fn registry(conninfo: &str, timeout: Duration) -> Postgresql {
    let options = PostgresqlOptions { conninfo: conninfo.to_owned(), timeout };
    Postgresql::new(libpq(), options).unwrap()
}
