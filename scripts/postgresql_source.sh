# shellcheck shell=bash
# PostgreSQL servers that this machine has no package of, built from Debian's source packages.
#
# apt fetches them from the mirror that this machine uses and checks its signatures and checksums as always, but keeps
# its lists in a directory of ours: the system's lists and packages stay as they are. Debian's patches are left out,
# because they put every version below /usr, where only packages belong.
#
# Sourced by lib.sh.

# Whose signatures count. Every Debian system has this file, from the package debian-archive-keyring.
DEBIAN_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

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
        suites=$(debian_suites "$major")
        need_build_packages
        [[ $1 != *-cassert ]] || need_packages valgrind
        need_cache
        log=$CACHE/pg$1.log
        : >"$log"
        directory=$(mktemp -d "$CACHE/build.XXXXXX")
        trap 'rm -rf "$directory"' EXIT
        # apt fetches as a user of its own.
        chmod 755 "$directory"
        cd "$directory"
        step "Fetching the source of PostgreSQL $major (details: $log)"
        logged "$log" fetch_source "postgresql-$major" "$suites"
        cd source
        step "Compiling PostgreSQL $(<.version) ${options[*]} (some minutes, once)"
        logged "$log" ./configure --prefix="$prefix" "${options[@]}"
        # What a make of ours tells the ones below it is not for PostgreSQL's.
        unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
        logged "$log" make -j "$(nproc)" world-bin
        rm -rf "$prefix"
        logged "$log" make install-world-bin
        echo "$stamp" >"$prefix/stamp"
    fi
    echo "$prefix/bin/pg_config"
)

need_build_packages() { need_packages build-essential bison flex libreadline-dev libssl-dev zlib1g-dev uuid-dev; }

# debian_suites VERSION: prints Debian's suites that have that version.
debian_suites() {
    case $1 in
        15) echo bookworm ;;
        17) echo trixie ;;
        18) echo forky sid ;;
        *) fail "Debian has no packages of PostgreSQL $1" "Name an installed server: PG_CONFIG=/path/to/pg_config" ;;
    esac
}

# fetch_source PACKAGE SUITES: unpacks a source package into the directory `source` here.
fetch_source() {
    local apt=(apt-get -q -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$PWD/lists" -o Dir::Cache="$PWD/cache")
    local mirror suite
    mirror=$(debian_mirror)
    for suite in $2; do
        echo "deb-src [signed-by=$DEBIAN_KEYS] $mirror $suite main"
    done >sources.list
    mkdir -p lists/partial cache/archives/partial
    "${apt[@]}" update
    "${apt[@]}" source --download-only "$1"
    dpkg-source --skip-patches --extract "$1"_*.dsc source
    sed -n "s/^PACKAGE_VERSION='\(.*\)'/\1/p" source/configure >source/.version
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
