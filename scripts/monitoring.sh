# shellcheck shell=bash
# The programs that the monitoring tests run: Prometheus, and the exporter that reads PostgreSQL for it.
#
# Sourced by lib.sh.

MONITORING_PACKAGES=(prometheus prometheus-postgres-exporter)
MONITORING_PROGRAMS=(prometheus promtool prometheus-postgres-exporter)

# need_monitoring: puts the programs on PATH, as need_unpacked does.
need_monitoring() {
    need_unpacked "$CACHE/monitoring" tests/monitoring "${MONITORING_PROGRAMS[*]}" "${MONITORING_PACKAGES[@]}"
}
