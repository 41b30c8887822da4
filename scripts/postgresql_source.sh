# shellcheck shell=bash
# PostgreSQL servers built from Debian's source packages: with assertions, and with PostgreSQL's own suites.
#
# apt fetches them from the mirror that this machine uses and checks its signatures and checksums as always, but keeps
# its lists in a directory of ours: the system's lists and packages stay as they are. Debian's patches are left out,
# because they put every version below /usr, where only packages belong.
#
# Sourced by lib.sh.

# Whose signatures count. Every Debian system has this file, from the package debian-archive-keyring.
DEBIAN_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

# Those of its extensions that benchmarks use. All of them take as long as a tenth of the rest.
CONTRIB=(pgstattuple uuid-ossp)

# built_server SERVER: builds a server into the cache unless it is there, and prints its pg_config. SERVER is a major
# version, or one followed by `-cassert`: that server checks itself all the time, and tells valgrind which of its memory
# is in use; or by `-source`: the same as without, where a package would be taken otherwise.
built_server() (
    major=${1%-*}
    prefix=$CACHE/pg$1
    options=(--without-icu --with-uuid=e2fs --with-ssl=openssl)
    [[ $1 != *-cassert ]] || options+=(--enable-cassert --enable-debug CPPFLAGS=-DUSE_VALGRIND)
    stamp="built with ${options[*]}"
    if [[ ! -e $prefix/stamp || $(<"$prefix/stamp") != "$stamp" ]]; then
        [[ $1 != *-cassert ]] || need_packages valgrind
        log=$CACHE/pg$1.log
        enter_source "$major" "$log"
        step "Compiling PostgreSQL $(<.version) ${options[*]} (some minutes, once)"
        logged "$log" ./configure --prefix="$prefix" "${options[@]}"
        logged "$log" make -j "$(nproc)"
        for each in "${CONTRIB[@]}"; do logged "$log" make -C "contrib/$each"; done
        rm -rf "$prefix"
        logged "$log" make install
        for each in "${CONTRIB[@]}"; do logged "$log" make -C "contrib/$each" install; done
        echo "$stamp" >"$prefix/stamp"
    fi
    echo "$prefix/bin/pg_config"
)

# built_suites SERVER: prints where PostgreSQL's own suites lie for a server that is built already: what their tests read,
# and the libraries they load, compiled unless they are there. The programs that run them came with the server.
built_suites() (
    prefix=$CACHE/pg$1
    if [[ ! -e $prefix/suites ]]; then
        log=$CACHE/pg$1-suites.log
        enter_source "${1%-*}" "$log"
        step "Compiling what the tests of PostgreSQL $(<.version) load"
        pg_config=$prefix/bin/pg_config
        # Its own Makefile needs a configured tree. This one library takes only what the server has installed.
        pgxs=$("$pg_config" --pgxs)
        logged "$log" make -C src/test/regress -f "$pgxs" PGXS="$pgxs" PG_CONFIG="$pg_config" MODULES=regress
        logged "$log" make -C contrib/spi USE_PGXS=1 PG_CONFIG="$pg_config"
        rm -rf "$prefix/suites.new"
        mkdir "$prefix/suites.new"
        cp -r src/test/regress src/test/isolation "$prefix/suites.new"
        cp contrib/spi/{refint,autoinc}.so "$prefix/suites.new/regress"
        mv -T "$prefix/suites.new" "$prefix/suites"
    fi
    echo "$prefix/suites"
)

# enter_source VERSION LOG: fetches PostgreSQL's source and enters its directory, which is gone when this subshell ends.
enter_source() {
    local suites
    suites=$(debian_suites "$1")
    need_packages "${SOURCE_PACKAGES[@]}"
    need_cache
    : >"$2"
    directory=$(mktemp -d "$CACHE/build.XXXXXX")
    trap 'rm -rf "$directory"' EXIT
    # apt fetches as a user of its own.
    chmod 755 "$directory"
    cd "$directory"
    step "Fetching the source of PostgreSQL $1 (details: $2)"
    logged "$2" fetch_source "postgresql-$1" "$suites"
    cd source
    # The variables that our own make hands down are not meant for PostgreSQL's make.
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
}

SOURCE_PACKAGES=(build-essential bison flex libreadline-dev libssl-dev zlib1g-dev uuid-dev)

# debian_suites VERSION: prints Debian's suites that have that version, first the one that is a whole system.
debian_suites() {
    case $1 in
        15) echo bookworm ;;
        17) echo trixie ;;
        18) echo forky sid ;;
        19) echo sid experimental ;;
        *) fail "Debian has no packages of PostgreSQL $1" "Name an installed server: PG_CONFIG=/path/to/pg_config" ;;
    esac
}

# has_source SERVER: whether the mirror of Debian has its source. Debian never released 16; and a mirror may list sources
# that it has no files of, in experimental and after an update.
has_source() (
    [[ $1 != 16 ]] || exit 1
    [[ ! -e $CACHE/pg$1-source/stamp ]] || exit 0
    need_packages "${SOURCE_PACKAGES[@]}"
    directory=$(mktemp -d)
    trap 'rm -rf "$directory"' EXIT
    cd "$directory" || exit
    fetch_source "postgresql-$1" "$(debian_suites "$1")" >/dev/null 2>&1
)

# fetch_source PACKAGE SUITES: unpacks a source package into the directory `source` here.
fetch_source() {
    # shellcheck disable=SC2086 # names in one word
    apt_here deb-src $2
    "${APT[@]}" source --download-only "$1"
    dpkg-source --skip-patches --extract "$1"_*.dsc source
    sed -n "s/^PACKAGE_VERSION='\(.*\)'/\1/p" source/configure >source/.version
}

# apt_here TYPE SUITE...: makes APT a command like apt-get that knows nothing but those suites' packages (deb) or sources
# (deb-src), and keeps its lists in this directory. Which version it prefers can be said in the file `preferences` here,
# and more in APT_OPTIONS, such as another processor.
APT_OPTIONS=()
apt_here() {
    local mirror suite
    mirror=$(debian_mirror)
    for suite in "${@:2}"; do
        echo "$1 [signed-by=$DEBIAN_KEYS] $mirror $suite main"
    done >sources.list
    mkdir -p lists/partial cache/archives/partial
    touch status preferences
    APT=(apt-get -q -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences="$PWD/preferences" -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State::Lists="$PWD/lists" -o Dir::State::Status="$PWD/status" -o Dir::Cache="$PWD/cache" "${APT_OPTIONS[@]}")
    "${APT[@]}" update
}

# debian_mirror: prints from where this machine gets its Debian packages.
debian_mirror() {
    need_apt_lists
    # shellcheck disable=SC2016 # apt replaces these names itself.
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' |
        awk '$1 !~ /-/ { print $2; found = 1; exit } END { exit !found }' ||
        fail "apt has no source of Debian's packages" "Put one into /etc/apt/sources.list.d and type: apt-get update" \
            "Or name an installed server: PG_CONFIG=/path/to/pg_config"
}

# logged FILE COMMAND...: runs it with its output in the file, and shows the end of that if it fails.
logged() {
    local status
    # A condition would let the command go on after an error.
    set +e
    (set -e; "${@:2}") >>"$1" 2>&1
    status=$?
    set -e
    ((status == 0)) && return
    tail -n 20 "$1" >&2
    fail "PostgreSQL could not be built: $2 failed, see $1" "Or name an installed server: PG_CONFIG=/path/to/pg_config"
}
