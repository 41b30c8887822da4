# shellcheck shell=bash
# etcd, which the tests of the fleet's registries run.
#
# Sourced by lib.sh.

ETCD_PACKAGES=(etcd-server etcd-client)
ETCD_PROGRAMS=(etcd etcdctl)

# need_etcd: puts the programs on PATH, as need_unpacked does.
need_etcd() { need_unpacked "$CACHE/etcd" "what needs etcd" "${ETCD_PROGRAMS[*]}" "${ETCD_PACKAGES[@]}"; }
