# shellcheck shell=bash
# Programs of Debian packages that tests run and that must not be installed, because installing them would start them.
# The packages are only unpacked, into the cache: apt chooses, fetches and checks them, and the system stays as it is.
# Programs that are on PATH already come first.
#
# Sourced by lib.sh.

# need_unpacked DIRECTORY TESTS PROGRAMS PACKAGE...: puts the programs, named in one word with spaces, on PATH, and
# unpacks the packages into the directory first where one is missing. Where that can't be done, the tests that need them
# say so; all others run. Who comes while another process unpacks them waits for that.
need_unpacked() {
    local programs
    read -ra programs <<<"$3"
    PATH=$PATH:$1/usr/bin
    (
        flock 9
        # With one name that is not found, `type` fails.
        type -P "${programs[@]}" >/dev/null && exit
        command -v apt-get >/dev/null || exit 0
        step "Unpacking ${*:4} into the cache (once)"
        unpack_packages "$1" "${@:4}" || step "They could not be fetched: $2 will fail"
    ) 9>"$1.lock"
}

# unpack_packages DIRECTORY PACKAGE...: what those packages of apt's choice hold, without installing them.
unpack_packages() (
    target=$1
    directory=$(mktemp -d "$CACHE/build.XXXXXX")
    trap 'rm -rf "$directory"' EXIT
    # apt fetches as a user of its own.
    ((EUID != 0)) || chown _apt "$directory"
    cd "$directory" || exit
    { apt-get -q download "${@:2}" || { as_root apt-get -q update && apt-get -q download "${@:2}"; }; } >&2 || exit
    for package in *.deb; do
        dpkg-deb --extract "$package" files || exit
    done
    rm -rf "$target" && mv files "$target"
)
