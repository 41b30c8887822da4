# shellcheck shell=bash
# The programs that the monitoring tests run: Prometheus, and the exporter that reads PostgreSQL for it.
#
# Installing their packages would start them, so the packages are only unpacked, into the cache: apt chooses, fetches and
# checks them, and the system stays as it is. Programs that are on PATH already come first.
#
# Sourced by lib.sh.

MONITORING_PACKAGES=(prometheus prometheus-postgres-exporter)
MONITORING_PROGRAMS=(prometheus promtool prometheus-postgres-exporter)

# need_monitoring: puts the programs on PATH, unpacking them first where they are missing. Where that can't be done, the
# tests that need them say so; all others run. Who comes while another process unpacks them waits for that.
need_monitoring() {
    PATH=$PATH:$CACHE/monitoring/usr/bin
    (
        flock 9
        # With one name that is not found, `type` fails.
        type -P "${MONITORING_PROGRAMS[@]}" >/dev/null && exit
        command -v apt-get >/dev/null || exit 0
        step "Unpacking ${MONITORING_PACKAGES[*]} into the cache (once)"
        unpack_packages "$CACHE/monitoring" "${MONITORING_PACKAGES[@]}" ||
            step "They could not be fetched: tests/monitoring will fail"
    ) 9>"$CACHE/monitoring.lock"
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
