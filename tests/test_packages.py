"""What is handed out agrees with itself: one version everywhere, a META.json that PGXN takes, archives that build."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from harness import GENERATING, Cluster, Server
from harness.catalog import EXTENSIONS

# What is looked at is the same for every server.
pytestmark = pytest.mark.any_server

ROOT = Path(__file__).parent.parent
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
META = json.loads((ROOT / "META.json").read_text())

TOP = f"id_gen-{CARGO['version']}"
SOURCES = ("base", "core", "id_gen_mask", "id_gen_tools", "registry", "src")
PACKED = ("META.json", "Cargo.lock", "LICENSE", "THIRD-PARTY-LICENSES", "scripts/install")

# What version 1.0.0 of the PGXN Meta Spec wants: https://pgxn.org/spec
REQUIRED = {"name", "version", "abstract", "maintainer", "license", "provides", "meta-spec"}
OPTIONAL = {"description", "generated_by", "tags", "no_index", "prereqs", "release_status", "resources"}
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z][-0-9A-Za-z]*)?")
PHASES = {"configure", "build", "test", "runtime", "develop"}
RELATIONS = {"requires", "recommends", "suggests", "conflicts"}


def test_version_is_the_same_everywhere() -> None:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    changelog = re.match(r"## (\S+)", (ROOT / "CHANGELOG.md").read_text())
    extensions = Server.from_environment().directory("sharedir") / "extension"
    assert changelog
    versions = {"META.json": META["version"], "CHANGELOG.md": changelog[1]}
    for name in EXTENSIONS:
        control = re.search(r"^default_version = '(.*)'$", (extensions / f"{name}.control").read_text(), re.MULTILINE)
        assert control
        versions |= {
            f"META.json, provides {name}": META["provides"][name]["version"],
            f"Cargo.lock, {name}": next(package["version"] for package in lock if package["name"] == name),
            f"{name}.control, as installed": control[1],
        }
        assert (extensions / f"{name}--{CARGO['version']}.sql").exists()
    assert versions == dict.fromkeys(versions, CARGO["version"])


def test_the_library_names_no_place_of_this_machine() -> None:
    server = Server.from_environment()
    libraries = [file.read_bytes() for file in server.directory("pkglibdir").glob("id_gen*.so")]
    assert len(libraries) == len(EXTENSIONS) + 1
    sources = [ROOT / name for name in (*SOURCES, "target", "vendor")]
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    places = [f"{place}/".encode() for place in (*sources, cargo_home, server.cache)]
    assert [place for place in places if any(place in library for library in libraries)] == []


def test_what_every_session_loads_has_no_code_of_a_network_protocol_and_no_secrets() -> None:
    library, registry, masks, tools = (
        (Server.from_environment().directory("pkglibdir") / f"{name}.so").read_bytes()
        for name in ("id_gen", "id_gen_registry", "id_gen_mask", "id_gen_tools")
    )
    for word in (b"rustls", b"/v3/kv/range", b"HTTP/1.1", b"PQconnectStartParams"):
        assert word in registry and not any(word in other for other in (library, masks, tools)), word
    for word in (b"has group or world access", b"id_mask_bigint"):
        assert word in masks and word not in library and word not in tools, word


def test_no_library_holds_the_scripts_that_create_it() -> None:
    for library in Server.from_environment().directory("pkglibdir").glob("id_gen*.so"):
        assert b"CREATE FUNCTION @extschema@" not in library.read_bytes(), library


def test_what_every_session_loads_has_no_tool() -> None:
    """And tools have neither settings nor memory of the server: they ask it by SQL."""
    library, tools = (
        (Server.from_environment().directory("pkglibdir") / f"{name}.so").read_bytes()
        for name in ("id_gen", "id_gen_tools")
    )
    for word in (
        b"CREATE SCHEMA id_gen_convert",
        b"cannot divide sequences",
        b"TABLESAMPLE",
        b"cannot be converted online",
    ):
        assert word in tools and word not in library, word
    for word in (b"DefineCustomIntVariable", b"ShmemInitStruct", b"LWLockAcquire"):
        assert word in library and word not in tools, word


def test_meta_follows_the_spec() -> None:
    assert META.keys() >= REQUIRED
    assert META.keys() <= REQUIRED | OPTIONAL
    assert all(META[key] for key in REQUIRED)
    assert VERSION.fullmatch(META["version"])
    assert META["meta-spec"]["version"] == "1.0.0"
    assert META["license"] == CARGO["license"].lower() == "postgresql"
    assert [META["maintainer"]] == CARGO["authors"]
    assert all(re.fullmatch(r"[^/\\\x00-\x1f]{2,255}", tag) for tag in META["tags"])
    for phase, relations in META["prereqs"].items():
        assert phase in PHASES and relations.keys() <= RELATIONS
        assert all(VERSION.fullmatch(version) for wanted in relations.values() for version in wanted.values())
    resources = META["resources"]
    assert resources.keys() <= {"homepage", "bugtracker", "repository"}
    assert resources["bugtracker"].keys() <= {"web", "mailto"}
    assert resources["repository"].keys() == {"url", "web", "type"}
    assert resources["homepage"] == resources["repository"]["web"] == CARGO["repository"]


def test_meta_names_files_that_exist() -> None:
    for extension in META["provides"].values():
        assert extension.keys() <= {"file", "version", "abstract", "docfile"}
        assert (ROOT / extension["file"]).is_file()
        assert (ROOT / extension["docfile"]).is_file()


def linked_crates(features: str) -> set[str]:
    """Name and version of every crate that the libraries are made of, macros included, for these servers."""
    listed = subprocess.run(
        ["cargo", "tree", "--workspace", "--locked", "--edges=normal",
         "--no-default-features", f"--features={features}", "--prefix=none", "--no-dedupe", "--format={p}"],
        cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE,
    ).stdout  # fmt: skip
    found = re.findall(r"^(\S+) v(\S+)(.*)$", listed, re.MULTILINE)
    return {f"{name} {version}" for name, version, more in found if f"({ROOT}" not in more}


def named_crates(licences: str) -> set[str]:
    """Name and version of every crate that the file lists, each of which has a text further down."""
    listed = set(re.findall(r"^\* (\S+ \S+): \S", licences, re.MULTILINE))
    assert listed == set(re.findall(r"^  (\S+ \d\S*)$", licences, re.MULTILINE))
    return listed


def test_licences_of_all_crates_and_no_others() -> None:
    every_server = ",".join(re.findall(r"^(pg\d+) = ", (ROOT / "Cargo.toml").read_text(), re.MULTILINE))
    crates = linked_crates(every_server)
    assert any(crate.startswith("pgrx ") for crate in crates)
    assert named_crates((ROOT / "THIRD-PARTY-LICENSES").read_text()) == crates


@pytest.mark.long
def test_licences_that_are_not_of_these_crates_are_noticed(tmp_path: Path) -> None:
    """By what `make lint` runs, for a crate that is missing, one too many, and one of another version."""
    for name in ("Cargo.toml", "Cargo.lock", *SOURCES, "scripts", "THIRD-PARTY-LICENSES"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    file = tmp_path / "THIRD-PARTY-LICENSES"
    licences = file.read_text()

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run([tmp_path / "scripts/licences", "check"], text=True, stderr=subprocess.PIPE)

    assert check().returncode == 0
    line = re.search(r"^\* libc (\S+): .*\n", licences, re.MULTILINE)
    assert line
    for wrong in ("", line[0] + "* libd 1.0.0: MIT\n", line[0].replace(line[1], "0.0.1")):
        file.write_text(licences.replace(line[0], wrong))
        refused = check()
        assert refused.returncode != 0 and "make licences" in refused.stderr, wrong


@pytest.mark.skipif("ID_GEN_DEB" not in os.environ, reason="scripts/deb tries each package that it builds")
def test_debian_package_carries_the_licences(tmp_path: Path) -> None:
    deb = os.environ["ID_GEN_DEB"]
    subprocess.run(["dpkg-deb", "--extract", deb, tmp_path], check=True)
    (doc,) = (tmp_path / "usr/share/doc").iterdir()
    licences = (doc / "THIRD-PARTY-LICENSES").read_text()
    assert licences == (ROOT / "THIRD-PARTY-LICENSES").read_text()
    assert named_crates(licences) >= linked_crates(f"pg{Server.from_environment().version}")
    assert f"/usr/share/doc/{doc.name}/THIRD-PARTY-LICENSES" in (doc / "copyright").read_text()


@pytest.fixture
def archives() -> list[Path]:
    """The packed sources: a zip and a tar.gz."""
    if not (ROOT / ".git").exists():
        pytest.skip("archives are made out of a git repository")
    made = subprocess.run([ROOT / "scripts/dist"], check=True, text=True, stdout=subprocess.PIPE)
    return [Path(line) for line in made.stdout.splitlines()]


@pytest.mark.long
def test_archives_hold_the_same_each_time(archives: list[Path], tmp_path: Path) -> None:
    before = [archive.read_bytes() for archive in archives]
    subprocess.run([ROOT / "scripts/dist"], check=True, stdout=subprocess.DEVNULL)
    assert [archive.read_bytes() for archive in archives] == before

    zipped, tarred = archives
    assert [zipped.name, tarred.name] == [f"{TOP}.zip", f"{TOP}.tar.gz"]
    unpack(tarred, tmp_path)
    with zipfile.ZipFile(zipped) as archive:
        in_zip = {name for name in archive.namelist() if not name.endswith("/")}
    unpacked = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert in_zip == unpacked >= {f"{TOP}/{name}" for name in PACKED}


@pytest.mark.release
@pytest.mark.long
def test_an_archive_builds_and_installs_the_same_library_anywhere(archives: list[Path], tmp_path: Path) -> None:
    """As PGXN's client does it, into a copy of the tests' server; and again, with the crates elsewhere, too."""
    built = set()
    with Server.from_environment().copied() as server:
        for place in ("one", "another"):
            directory = tmp_path / place
            directory.mkdir()
            unpack(archives[1], directory)
            # Nothing is taken over from a build of the tree: cargo would take older sources for the same.
            env = os.environ | {"CARGO_TARGET_DIR": str(directory / "target")}
            if place != "one":
                env["CARGO_HOME"] = str(directory / "cargo")
            built.add(builds_and_installs(server, directory, env))
    assert len(built) == 1


@pytest.mark.release
@pytest.mark.long
def test_a_vendored_archive_builds_without_a_network(tmp_path: Path) -> None:
    """On a machine where cargo has never fetched anything."""
    if not (ROOT / ".git").exists():
        pytest.skip("archives are made out of a git repository")
    pack = [ROOT / "scripts/dist", "vendored"]
    (first, again) = (subprocess.run(pack, check=True, text=True, stdout=subprocess.PIPE).stdout for _ in range(2))
    archive = Path(first.strip())
    held = archive.read_bytes()
    assert first == again and archive.read_bytes() == held
    unpack(archive, tmp_path)
    places = {"CARGO_HOME": "cargo", "CARGO_TARGET_DIR": "target", "ID_GEN_CACHE": "cache"}
    # Without the user's own programs, such as rustup.
    without_tools = {"PATH": f"{Path(cargo()).parent}:/usr/bin:/bin:/usr/sbin:/sbin"}
    env = os.environ | without_tools | {name: str(tmp_path / place) for name, place in places.items()}
    tmp_path.chmod(0o755)
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    with Server.from_environment().copied() as server:
        builds_and_installs(server, tmp_path, env, *apart)


def cargo() -> str:
    """The toolchain's own program, which is found where rustup's is not."""
    asked = subprocess.run(["rustup", "which", "cargo"], text=True, stdout=subprocess.PIPE)
    return asked.stdout.strip() or shutil.which("cargo") or "cargo"


def builds_and_installs(server: Server, directory: Path, env: dict[str, str], *before: str) -> bytes:
    """The unpacked archive. Returns the library."""
    library = server.directory("pkglibdir") / "id_gen.so"
    library.unlink()
    for path in (server.directory("sharedir") / "extension").glob("id_gen*"):
        path.unlink()
    install = [*before, "make", "all", "install", f"PG_CONFIG={server.pg_config}"]
    subprocess.run(install, cwd=directory / TOP, env=env, check=True)
    assert library.exists()
    with Cluster(conf=GENERATING, server=server) as cluster:
        cluster.psql("CREATE EXTENSION id_gen")
        assert int(cluster.psql("SELECT snowflake_next()")) > 0
        cluster.psql("CREATE EXTENSION id_gen_mask; LOAD 'id_gen_mask'; CREATE EXTENSION id_gen_tools")
    return library.read_bytes()


def unpack(tarred: Path, directory: Path) -> None:
    with tarfile.open(tarred) as archive:
        archive.extractall(directory, filter="data")
