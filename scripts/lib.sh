# shellcheck shell=bash
# Everything the project needs on a machine, step by step: system packages, a Python environment, a PostgreSQL server of our own, and the extension built into a server. Each step looks first and acts only
# when something is missing, so calling all of them always is right and, the second time, quick.
#
# What the steps make outside the tree lies in one cache directory, which `make clean` deletes. The tree itself may be
# closed to the user `postgres`, so nothing that a server reads lies in the tree.
#
# Sourced by the commands beside it. It reads ID_GEN_CACHE, PG (a major version, or for example 18-cassert), PG_CONFIG
# (an installed server) and ID_GEN_FEATURES (features of Cargo.toml that the extension is built with in addition).

set -euo pipefail
shopt -s inherit_errexit
umask 022

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [[ -n ${ID_GEN_CACHE:-} ]]; then
    CACHE=$ID_GEN_CACHE
elif ((EUID == 0)); then
    CACHE=/var/cache/id_gen
else
    CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/id_gen
fi
VENV=$CACHE/venv
# Where pgrx looks for its configuration: see need_pgrx.
export PGRX_HOME=$CACHE/pgrx

# The tests whose result depends on the server, but for those that take long (tests/pytest.ini).
# shellcheck disable=SC2034 # for the commands
OF_SERVER="every_version or not (any_server or long)"

# How pytest runs tests side by side: most of them wait most of the time.
# shellcheck disable=SC2034 # for the commands
SIDE_BY_SIDE=(--numprocesses "${WORKERS:-$(($(nproc) + 4))}" --dist loadgroup)

cd "$ROOT"

# Processes that run tests side by side would each compile all of them anew: that was a fifteenth of what CI takes.
unset PYTHONDONTWRITEBYTECODE

# Cargo tells sources apart by where they lie within a project and how old they are. In a directory that several clones
# build in, it would take the outcome of another one's for that of these. It compiles `core`, and what builds on that, anew
# where this variable has changed.
[[ -z ${CARGO_TARGET_DIR:-} ]] || export ID_GEN_SOURCES=$ROOT

# Colours are for a terminal, and for who has not asked for none (https://no-color.org).
if [[ -t 2 && -z ${NO_COLOR:-} ]]; then
    GREEN=$'\033[1;32m' RED=$'\033[1;31m' PLAIN=$'\033[0m'
else
    GREEN="" RED="" PLAIN=""
fi

step() { printf '%s==>%s %s\n' "$GREEN" "$PLAIN" "$*" >&2; }

fail() {
    printf '%serror:%s %s\n' "$RED" "$PLAIN" "$1" >&2
    shift
    (($# == 0)) || printf '  %s\n' "$@" >&2
    exit 1
}

if [[ -n ${PG_CONFIG:-} ]]; then
    [[ -x $PG_CONFIG ]] || fail "PG_CONFIG=$PG_CONFIG is not a program" "Give the full path of a server's pg_config."
    given=$("$PG_CONFIG" --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p') || true
    [[ -n $given ]] || fail "PG_CONFIG=$PG_CONFIG is no pg_config" "Give the full path of a server's pg_config."
    [[ ${PG:-$given} == "$given" ]] || fail "PG=$PG, but PG_CONFIG is of PostgreSQL $given" "Leave one of them out."
    PG=$given
else
    PG=${PG:-15}
fi
# shellcheck disable=SC2034 # for the commands
MAJOR=${PG%%-*}

source "$ROOT/scripts/postgresql_source.sh"
source "$ROOT/scripts/postgresql_unpacked.sh"
source "$ROOT/scripts/unpacked.sh"
source "$ROOT/scripts/monitoring.sh"
source "$ROOT/scripts/etcd.sh"
source "$ROOT/scripts/patroni.sh"
source "$ROOT/scripts/partman.sh"
source "$ROOT/scripts/clients.sh"

# of_cargo KEY: prints a value of Cargo.toml.
of_cargo() { sed -n "s/^$1 = \[\?\"\(.*\)\"\]\?$/\1/p" Cargo.toml; }

# The versions of PostgreSQL that Cargo.toml has a feature for, the oldest first.
mapfile -t SUPPORTED < <(sed -n 's/^pg\([0-9]\+\) = .*/\1/p' Cargo.toml)

# A build with other features has a private server of its own, so that nobody takes it for the normal one.
FEATURES=${ID_GEN_FEATURES:-}
WITH_FEATURES=${FEATURES:+-${FEATURES//[^a-z0-9_]/-}}

# need_supported: refuses a PostgreSQL that the code is not for, in one line, before anything is built.
need_supported() {
    local oldest=${SUPPORTED[0]} newest=${SUPPORTED[-1]}
    [[ $PG =~ ^[1-9][0-9]*(-source|-cassert)?$ ]] || fail "PG=$PG is no version of PostgreSQL" "Choose one of: ${SUPPORTED[*]}"
    ((MAJOR >= oldest)) || fail "PostgreSQL $MAJOR is too old for id_gen, which is for $oldest to $newest" \
        "PostgreSQL itself no longer supports $MAJOR: https://www.postgresql.org/support/versioning/"
    ((MAJOR <= newest)) || fail "PostgreSQL $MAJOR is too new for id_gen, which is for $oldest to $newest" \
        "Each new PostgreSQL changes what an extension is built on. Look for a newer id_gen, or choose an older server."
}
need_supported

as_root() { if ((EUID == 0)); then "$@"; else sudo "$@"; fi; }

# Programs of a server refuse to run as root; the package's own user runs them then.
as_server() { if ((EUID == 0)); then (cd / && runuser -u postgres -- "$@"); else "$@"; fi; }

# need_packages NAME...: installs the Debian packages that are missing.
need_packages() {
    local missing=() install=(apt_install) package
    command -v dpkg-query >/dev/null || {
        step "Not a Debian system: taking for granted what these packages hold: $*"
        return
    }
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] || missing+=("$package")
    done
    ((${#missing[@]})) || return 0

    step "Installing system packages: ${missing[*]}"
    ((EUID == 0)) || command -v sudo >/dev/null ||
        fail "system packages are missing, and there is no sudo to install them with" \
            "As root, type: apt-get install --no-install-recommends ${missing[*]}"
    [[ ${missing[*]} != *postgresql-* ]] || install=(without_main_cluster apt_install)
    if ! { as_root apt-get update -q && "${install[@]}" "${missing[@]}"; } >&2; then
        fail "the system packages could not be installed" \
            "As root, type: apt-get update && apt-get install --no-install-recommends ${missing[*]}"
    fi
}

# need_apt_lists: an image of a system may come without apt's lists.
need_apt_lists() { compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null || as_root apt-get update -q >&2; }

apt_install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }

# Debian's PostgreSQL packages create and start a cluster when they are first installed. Nobody asked for one here, so
# that is switched off while the command runs, and the setting is put back as it was, whatever happens.
without_main_cluster() (
    conf=/etc/postgresql-common/createcluster.conf
    [[ -e $conf ]] || apt_install postgresql-common || exit
    as_root cp -p "$conf" "$conf.id_gen" || exit
    trap 'as_root mv "$conf.id_gen" "$conf"' EXIT
    echo 'create_main_cluster = false' | as_root tee -a "$conf" >/dev/null || exit
    "$@"
)

need_cache() {
    mkdir -p "$CACHE"
    ((EUID != 0)) || as_server test -x "$CACHE" ||
        fail "user postgres cannot enter $CACHE" "Name another directory: ID_GEN_CACHE=/var/cache/id_gen"
    need_run_directory "$CACHE/run"
}

need_run_directory() {
    local owner=()
    ((EUID != 0)) || owner=(-o postgres -g postgres)
    install -d "${owner[@]}" -m 700 "$1"
}

# Each test copies a data directory of a thousand files, which some disks take ten times as long for as memory does. A
# failed test leaves its files there, so the memory has to be large.
MEMORY=/dev/shm
MEMORY_RUN=$MEMORY/id_gen${CACHE//[^a-zA-Z0-9]/_}
LARGE_MEMORY_KB=$((8 << 20))

# run_in_memory: whether the servers of tests can run in memory. They also load libraries from there.
run_in_memory() {
    local type available
    read -r type available < <(df --output=fstype,avail "$MEMORY" 2>/dev/null | tail -n 1)
    [[ $type == tmpfs && -w $MEMORY ]] && ((available >= LARGE_MEMORY_KB)) &&
        [[ ,$(findmnt --noheadings --output OPTIONS --target "$MEMORY"), != *,noexec,* ]]
}

# for_tests: puts the servers that are started from here on where they cost tests the least time.
for_tests() {
    ! run_in_memory || {
        need_run_directory "$MEMORY_RUN"
        export ID_GEN_RUN=$MEMORY_RUN
    }
}

need_cargo() {
    local wanted found
    wanted=$(of_cargo rust-version)
    command -v cargo >/dev/null || fail "cargo was not found" \
        "Install Rust $wanted or newer from https://rustup.rs, open a new shell, and type the same command again."
    found=$(cargo --version | cut -d' ' -f2)
    [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) == "$wanted" ]] ||
        fail "Rust $found is too old: $wanted or newer is needed" "With rustup, type: rustup update stable"
}

# Which server to build for is said in PGRX_PG_CONFIG_PATH; the configuration has to exist all the same, or cargo builds
# pgrx anew every time.
need_pgrx() {
    mkdir -p "$PGRX_HOME"
    [[ -e $PGRX_HOME/config.toml ]] || echo '[configs]' >"$PGRX_HOME/config.toml"
}

need_venv() {
    local stamp
    stamp=$(python3 --version && cat tests/requirements.txt)
    [[ -e $VENV/stamp && $(<"$VENV/stamp") == "$stamp" ]] && return
    step "Making the Python environment for tests and demo (once)"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed" \
        "Put one first on PATH; this one is $(command -v python3), $(python3 --version)."
    python3 -m venv --clear "$VENV"
    "$VENV/bin/pip" install --disable-pip-version-check --requirement tests/requirements.txt
    echo "$stamp" >"$VENV/stamp"
}

# in_venv ARGUMENT...: runs Python as the tests expect it.
in_venv() { env ID_GEN_CACHE="$CACHE" PYTHONPATH="$ROOT/tests" "$VENV/bin/python" "$@"; }

# need_mode: MODE says how a server comes by the library: from its start, or only where it is used, which PostgreSQL 17
# and later allow.
need_mode() {
    export MODE=${MODE:-preloaded}
    case $MODE in
        preloaded) ;;
        not-preloaded) ((MAJOR >= 17)) || fail "PostgreSQL $MAJOR needs the preload" "Choose another: PG=17 MODE=$MODE" ;;
        *) fail "MODE=$MODE is unknown" "The modes are: preloaded, not-preloaded" ;;
    esac
}

# machine_packages: the system packages that everything needs, and those of the server PG, a name a line.
machine_packages() {
    printf '%s\n' build-essential pkg-config clang libclang-dev python3-venv iproute2
    [[ -n ${PG_CONFIG:-} ]] || ! has_package "$PG" || printf '%s\n' "postgresql-$PG" "postgresql-server-dev-$PG"
}

# need_machine: all the steps that do not depend on a server.
need_machine() {
    local packages
    need_cargo
    mapfile -t packages < <(machine_packages)
    need_packages "${packages[@]}"
    need_cache
    need_venv
}

# has_package SERVER: whether this machine has, or can install, a package of that server.
has_package() {
    [[ -x /usr/lib/postgresql/$1/bin/pg_config ]] && return
    command -v apt-cache >/dev/null && need_apt_lists && [[ -n $(apt-cache show "postgresql-$1" 2>/dev/null) ]]
}

# pg_config_for SERVER: prints the pg_config of that server: the one that PG_CONFIG names, a package's, or one built here.
pg_config_for() {
    if [[ -n ${PG_CONFIG:-} ]]; then
        echo "$PG_CONFIG"
    elif has_package "$1"; then
        echo "/usr/lib/postgresql/$1/bin/pg_config"
    elif is_unpacked "$1"; then
        unpacked_server "$1"
    else
        built_server "$1"
    fi
}

# private_server SERVER: prints the pg_config of a server of our own: one built here, or our copy of an installed one,
# made or renewed first where needed. PostgreSQL finds its libraries and extensions relative to its programs, so a copy
# of the four trees is a server of its own, and no test installs anything into the system's. While another process makes
# the same server, this waits for it.
private_server() {
    need_cache
    (
        flock --nonblock 9 || { step "Waiting for another process that makes PostgreSQL $1" && flock 9; }
        make_private_server "$1"
    ) 9>"$CACHE/pg$1.lock"
}

make_private_server() {
    local source copy stamp tree
    # Who calls this in a condition has no `set -e`.
    source=$(pg_config_for "$1") || return
    copy=$CACHE/pg$1${PG_CONFIG:+-given}$WITH_FEATURES
    if [[ $source == "$copy"/* ]]; then
        echo "$source"
        return
    fi
    stamp=$("$source"; stat -c '%Y %s' "$("$source" --bindir)/postgres")
    if [[ ! -e $copy/stamp || $(<"$copy/stamp") != "$stamp" ]]; then
        step "Copying $("$source" --version) to $copy"
        rm -rf "$copy" "$copy.new"
        for tree in --bindir --pkglibdir --sharedir --pkgincludedir --includedir-server; do
            tree=$("$source" "$tree")
            mkdir -p "$copy.new$tree"
            cp -a "$tree/." "$copy.new$tree/"
        done
        mv "$copy.new" "$copy"
        as_server "$copy$("$source" --bindir)/psql" --version >/dev/null ||
            fail "a copy of $("$source" --version) does not run" \
                "Its programs look for libraries beside them ($("$source" --libdir)). Tests need a server whose libraries the system finds; \`make install\` takes any."
        echo "$stamp" >"$copy/stamp"
    fi
    echo "$copy$("$source" --bindir)/pg_config"
}

# What is built and installed together: the extensions, and the library that talks to a fleet's registry.
LIBRARIES=(id_gen id_gen_mask id_gen_tools id_gen_registry)

# build_extension PG_CONFIG DIRECTORY [OPTION...]: the one release build, for the server that pg_config describes, with
# these options of cargo. Its files come to lie under the directory as they are to lie under /. The same sources and
# compilers give the same bytes, wherever they lie.
#
# `cargo pgrx package` does the same, but has the linker keep what nobody calls, which is as much again.
build_extension() (
    [[ -z $FEATURES || $1 == "$CACHE"/* ]] || fail "ID_GEN_FEATURES=$FEATURES is for private servers" \
        "A library that others load is built without: unset ID_GEN_FEATURES."
    step "Building id_gen for $("$1" --version) ($1)"
    need_pgrx
    without_paths
    major=$("$1" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
    built=${CARGO_TARGET_DIR:-target}
    # The library is out of cargo's directory before it is built for another server.
    mkdir -p "$built"
    exec 9>"$built/.id_gen_build"
    flock 9
    PGRX_PG_CONFIG_PATH=$1 cargo build --release --lib "${LIBRARIES[@]/#/--package=}" --locked \
        --ignore-rust-version --no-default-features --features "pg$major $FEATURES" "${@:3}" >&2
    [[ " ${*:3} " != *" --target "* ]] || built+=/$ARM64
    for library in "${LIBRARIES[@]}"; do
        install -D --mode=755 "$built/release/lib$library.so" "$2$("$1" --pkglibdir)/$library.so"
    done
    install_scripts "$2$("$1" --sharedir)/extension"
)

# install_scripts DIRECTORY: the control file of each extension, the script that creates it, and those that update it.
install_scripts() {
    mkdir -p "$1"
    install_scripts_of id_gen . "$1"
    install_scripts_of id_gen_mask id_gen_mask "$1"
    install_scripts_of id_gen_tools id_gen_tools "$1"
}

# install_scripts_of EXTENSION FOLDER DIRECTORY: those of one, made of SQL files in the order that FOLDER/sql/order lists.
# pgrx's extension_sql_file! would put them all into the library, which reads none.
install_scripts_of() {
    local version files
    version=$(of_cargo version)
    mapfile -t files <"$2/sql/order"
    sed "s/@CARGO_VERSION@/$version/" "$2/$1.control" >"$3/$1.control"
    {
        printf '%s\n' "\\echo Use \"CREATE EXTENSION $1\" to load this file. \\quit"
        sed "s/@EXTENSION@/$1/" "${files[@]/#/$2/sql/}"
    } >"$3/$1--$version.sql"
    find "$2/sql" -name "$1--*--*.sql" -exec cp {} "$3" \;
}

# without_paths: from here on compilers name other people's sources by their crates' names. Those of the project cargo names
# by where they lie within it. No flag names the place of the project, so that who builds two clones in one CARGO_TARGET_DIR
# compiles other people's crates once. Of two names that fit, rustc takes the one said last.
without_paths() {
    local target crates=() copies directory flags=() name
    if [[ -d $ROOT/vendor ]]; then
        crates=("$ROOT/vendor")
    else
        cargo fetch --quiet --locked # Only then it is known where they lie.
        crates=("${CARGO_HOME:-$HOME/.cargo}"/registry/src/*)
    fi
    target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
    # A private server is a copy of one that lies under /.
    copies=("${SUPPORTED[@]/#/$CACHE/pg}")
    # What the user wants of the compiler comes first, split as cargo splits it.
    read -ra flags <<<"${RUSTFLAGS:-}"
    for name in "$target=/target" "${crates[@]/%/=/crates}" "${copies[@]/%/=}"; do
        flags+=("--remap-path-prefix=$name")
        directory=${name%=*}
        # Spaces would split them.
        [[ $directory == *[[:space:]]* ]] || CFLAGS+=" -ffile-prefix-map=$name"
    done
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
    export CARGO_ENCODED_RUSTFLAGS CFLAGS
}

# build_once PG_CONFIG DIRECTORY: the same without options. Scripts that follow each other while the sources stay as they
# are share a directory, ID_GEN_BUILDS, and build once for each major version, whose servers load the same library. One
# that checks itself (--enable-cassert) has other headers.
build_once() {
    local kept lib extension
    if [[ -z ${ID_GEN_BUILDS:-} ]]; then
        build_extension "$1" "$2"
        return
    fi
    kept=$(kept_build "$1")
    lib=$("$1" --pkglibdir)
    extension=$("$1" --sharedir)/extension
    mkdir -p "$2$lib" "$2$extension"
    cp -r "$kept/lib/." "$2$lib"
    cp -r "$kept/extension/." "$2$extension"
}

# kept_build PG_CONFIG: where in ID_GEN_BUILDS the build for that server lies. It is built if nobody has done so.
kept_build() (
    kept=$ID_GEN_BUILDS/$("$1" --version | sed 's/[^0-9]*\([0-9]*\).*/pg\1/')
    # Few tests run on the servers between (scripts/test-all). What is released is optimized as a whole, which takes longer.
    if [[ -z ${ID_GEN_RELEASE:-} && ! $kept =~ /pg(15|18)$ ]]; then
        export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    fi
    [[ $("$1" --configure) != *--enable-cassert* ]] || kept+=-cassert
    kept+=$WITH_FEATURES
    exec 8>"$kept.lock"
    flock 8
    if [[ ! -d $kept ]]; then
        build_extension "$1" "$kept.built"
        mkdir "$kept.new"
        mv "$kept.built$("$1" --pkglibdir)" "$kept.new/lib"
        mv "$kept.built$("$1" --sharedir)/extension" "$kept.new/extension"
        mv "$kept.new" "$kept"
    fi
    echo "$kept"
)

# install_extension PG_CONFIG: builds it and installs it into that server, which may be running.
install_extension() (
    package=$(mktemp -d)
    trap 'rm -rf "$package"' EXIT
    build_once "$1" "$package"
    if [[ -w $("$1" --pkglibdir) && -w $("$1" --sharedir)/extension ]]; then
        replace_files "$package" /
    else
        as_root bash -euc "$(declare -f replace_files); umask 022; replace_files \"\$@\"" bash "$package" /
    fi
)

# replace_files FROM TO: puts every file below one directory at the same place below the other. Each is written under
# another name and then renamed. What a running server has mapped stays as it is: written over, it would crash every
# process of it. And who opens a file meanwhile finds the old one or the new one, whole.
replace_files() (
    cd "$1"
    find . -type f -printf '%P\0' | while IFS= read -r -d '' file; do
        new=$(dirname "$2/$file")/.$(basename "$file").$BASHPID.new
        mkdir -p "$(dirname "$new")"
        trap 'rm -f "$new"' EXIT
        cp "$file" "$new"
        mv -f "$new" "$2/$file"
    done
)

passed=0
failed=0
failed_kinds=()
tests_log=

# run_tests NAME COMMAND...: runs one kind of test, and adds what it counts to the kinds before. One that fails without
# counting a failure did not get to its tests.
run_tests() {
    local name=$1 failures status=0
    tests_log=${tests_log:-$(mktemp)}
    trap 'rm -f "$tests_log"' EXIT
    step "$name"
    "${@:2}" 2>&1 | tee "$tests_log" || status=$?
    failures=$(($(count_tests failed) + $(count_tests 'errors?')))
    ((status == 0 || failures > 0)) || failures=1
    ((failures == 0)) || failed_kinds+=("$name")
    passed=$((passed + $(count_tests passed)))
    failed=$((failed + failures))
}

# count_tests WORD: adds up "N passed" or "N failed" in the summary lines of cargo and pytest.
count_tests() {
    sed 's/\x1b\[[0-9;]*m//g' "$tests_log" |
        { grep -E '^test result: |^=+ .* in [0-9.]+s.* =+$' || true; } |
        { grep -oE "[0-9]+ $1" || true; } |
        awk '{ sum += $1 } END { print sum + 0 }'
}

# end_tests SUBJECT: says which kinds failed and, in the last line, the count of them all; fails if one failed.
end_tests() {
    ((failed == 0)) || printf '\nFailed: %s\n' "${failed_kinds[@]}"
    printf '\n%s: %d passed, %d failed\n' "$1" "$passed" "$failed"
    ((failed == 0))
}
