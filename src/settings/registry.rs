//! The parameters that name a fleet and its registry, and their values as this process last read them.
//!
//! They are text, so unlike the others they are not in shared memory: the registrar, which reads every reload, is the
//! process that acts on them. What a session asks for waits until the registrar has the same.

use std::ffi::{CStr, CString};

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

/// The fleet of servers that name none.
const DEFAULT_FLEET: &CStr = c"default";

type TextSetting = GucSetting<Option<CString>>;

static REGISTRY: TextSetting = TextSetting::new(Some(c""));
static FLEET: TextSetting = TextSetting::new(Some(DEFAULT_FLEET));
static WORKER_IDS: TextSetting = TextSetting::new(Some(c""));
static CA_FILE: TextSetting = TextSetting::new(Some(c""));
static CERT_FILE: TextSetting = TextSetting::new(Some(c""));
static KEY_FILE: TextSetting = TextSetting::new(Some(c""));
static USER: TextSetting = TextSetting::new(Some(c""));
static PASSWORD_FILE: TextSetting = TextSetting::new(Some(c""));

/// Where a server's fleet is, and how to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrySettings {
    /// `id_gen.registry`.
    pub registry: String,
    /// `id_gen.fleet_name`.
    pub fleet: String,
    /// `id_gen.worker_id_range`.
    pub worker_ids: String,
    /// `id_gen.registry_ca_file`.
    pub ca_file: Option<String>,
    /// `id_gen.registry_cert_file`.
    pub cert_file: Option<String>,
    /// `id_gen.registry_key_file`.
    pub key_file: Option<String>,
    /// `id_gen.registry_user`.
    pub user: Option<String>,
    /// `id_gen.registry_password_file`.
    pub password_file: Option<String>,
}

/// Whether there is a registry.
pub fn is_set() -> bool {
    !text(&REGISTRY).trim().is_empty()
}

/// Tells the fleet and its registry from others; zero without a registry.
pub fn mark() -> u64 {
    if !is_set() {
        return 0;
    }
    hash(&[&text(&REGISTRY), &text(&FLEET)])
}

/// FNV-1a of texts; never zero.
fn hash(texts: &[&str]) -> u64 {
    // Its start and its prime.
    let bytes = texts.iter().flat_map(|text| text.bytes().chain(std::iter::once(0)));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

impl RegistrySettings {
    /// Tells these settings from others.
    pub fn fingerprint(&self) -> u64 {
        let RegistrySettings { registry, fleet, worker_ids, .. } = self;
        let files =
            [&self.ca_file, &self.cert_file, &self.key_file, &self.user, &self.password_file];
        let files = files.map(|file| file.as_deref().unwrap_or_default());
        hash(&[&[&**registry, fleet, worker_ids], &files[..]].concat())
    }
}

/// Where the fleet is; `None` without a registry.
pub fn current() -> Option<RegistrySettings> {
    is_set().then(|| RegistrySettings {
        registry: text(&REGISTRY).trim().to_owned(),
        fleet: text(&FLEET),
        worker_ids: text(&WORKER_IDS),
        ca_file: some(&CA_FILE),
        cert_file: some(&CERT_FILE),
        key_file: some(&KEY_FILE),
        user: some(&USER),
        password_file: some(&PASSWORD_FILE),
    })
}

fn text(setting: &'static TextSetting) -> String {
    setting.get().map_or_else(String::new, |text| text.to_string_lossy().into_owned())
}

fn some(setting: &'static TextSetting) -> Option<String> {
    Some(text(setting)).filter(|text| !text.is_empty())
}

fn define_text(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static TextSetting,
    flags: GucFlags,
) {
    GucRegistry::define_string_guc(name, short, long, setting, GucContext::Sighup, flags);
}

/// Defines the parameters. Called once, when the library is loaded.
pub fn define() {
    let (open, closed) = (GucFlags::empty(), GucFlags::SUPERUSER_ONLY);
    define_text(
        c"id_gen.registry",
        c"Sets the registry of the fleet, which stores the worker IDs of its servers.",
        c"A list of etcd members (\"etcd://host:2379, ...\", or etcds:// for TLS), or a URI of PostgreSQL (\"postgresql://...\"). Empty: no fleet.",
        &REGISTRY,
        closed,
    );
    define_text(
        c"id_gen.fleet_name",
        c"Sets the name of the fleet that this server belongs to.",
        c"Servers that must not generate duplicate IDs belong to one fleet. Letters, digits, \"_\", \"-\" and \".\", 63 at most.",
        &FLEET,
        open,
    );
    define_text(
        c"id_gen.worker_id_range",
        c"Sets the worker IDs that this server may acquire from its fleet.",
        c"A range such as \"0-511\", for example one for each region. Empty: all worker IDs of the layout.",
        &WORKER_IDS,
        open,
    );
    define_text(
        c"id_gen.registry_ca_file",
        c"Sets the file of the certificate authority for etcd.",
        c"In PEM format. Required for etcds://; no other authority is trusted.",
        &CA_FILE,
        closed,
    );
    define_text(
        c"id_gen.registry_cert_file",
        c"Sets the file of the client certificate for etcd.",
        c"In PEM format. Empty: none.",
        &CERT_FILE,
        closed,
    );
    define_text(
        c"id_gen.registry_key_file",
        c"Sets the file of the private key of the client certificate for etcd.",
        c"In PEM format. Empty: none.",
        &KEY_FILE,
        closed,
    );
    define_text(
        c"id_gen.registry_user",
        c"Sets the user name for etcd.",
        c"Empty: none.",
        &USER,
        closed,
    );
    define_text(
        c"id_gen.registry_password_file",
        c"Sets the file that holds the password for etcd.",
        c"Its first line is the password. For a registry on PostgreSQL, libpq reads passwords as usual, for example from .pgpass.",
        &PASSWORD_FILE,
        closed,
    );
}
