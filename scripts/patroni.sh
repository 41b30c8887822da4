# shellcheck shell=bash
# Patroni, which a test of the fleet lets decide who is the primary, and what it imports. Debian's Python runs it, which
# these packages are made for.
#
# Sourced by lib.sh.

PATRONI_PACKAGES=(
    patroni libpq5 python3-cdiff python3-click python3-dateutil python3-dnspython python3-etcd python3-pkg-resources
    python3-prettytable python3-psutil python3-psycopg2 python3-six python3-urllib3 python3-wcwidth python3-yaml
)
PATRONI_PROGRAMS=(patroni)

# need_patroni: puts the program on PATH, as need_unpacked does.
need_patroni() {
    need_unpacked "$CACHE/patroni" tests/fleet/test_patroni.py "${PATRONI_PROGRAMS[*]}" "${PATRONI_PACKAGES[@]}"
}
