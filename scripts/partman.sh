# shellcheck shell=bash
# pg_partman, which a test lets make partitions by the time in IDs: its source as Debian has it, installed into a server of
# our own. Its background worker is left out: it only calls what the test calls.
#
# Sourced by lib.sh.

# need_partman PG_CONFIG: installs it into that server, unless it is there. Where that can't be done, the test that needs
# it says so; all others run. Who comes while another process does it waits for that.
need_partman() (
    flock 9
    [[ ! -e $("$1" --sharedir)/extension/pg_partman.control ]] || exit 0
    has_partman_source || exit 0
    step "Installing pg_partman for $("$1" --version)"
    # The variables that our own make hands down are not meant for its make.
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
    make -C "$CACHE/partman" install NO_BGW=1 PG_CONFIG="$1" >"$CACHE/partman.log" 2>&1 ||
        step "It could not be installed, see $CACHE/partman.log: tests/clients/test_partman.py will fail"
) 9>"$CACHE/partman.lock"

# need_partman_source: the same for what is fetched, which no server is needed for.
need_partman_source() (
    flock 9
    has_partman_source || exit 0
) 9>"$CACHE/partman.lock"

has_partman_source() {
    [[ ! -d $CACHE/partman ]] || return 0
    command -v apt-get >/dev/null || return
    step "Fetching the source of pg_partman into the cache (once)"
    fetch_partman >"$CACHE/partman.log" 2>&1 ||
        { step "It could not be fetched, see $CACHE/partman.log: tests/clients/test_partman.py will fail" && return 1; }
}

# Of the source package only its authors' archive: what Debian adds is of no use here.
fetch_partman() (
    directory=$(mktemp -d "$CACHE/build.XXXXXX") || exit
    trap 'rm -rf "$directory"' EXIT
    # apt fetches as a user of its own.
    chmod 755 "$directory" && cd "$directory" || exit
    apt_here deb-src sid || exit
    "${APT[@]}" source --download-only --tar-only pg-partman || exit
    mkdir source
    tar --extract --strip-components 1 --directory source --file pg-partman_*.orig.tar.* || exit
    mv -T source "$CACHE/partman"
)
