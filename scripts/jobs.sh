# shellcheck shell=bash
# For commands that consist of others: runs them one after the other or side by side, and ends with what came of each.
#
# Sourced by them, after lib.sh.

# The servers that the tests run on, and the modes each has.
SERVERS=("15 preloaded" "16 preloaded" "17 preloaded not-preloaded" "18 preloaded not-preloaded"
    "19 preloaded not-preloaded")

LOGS=${CARGO_TARGET_DIR:-target}/log
mkdir -p "$LOGS"

summaries=()
scripts_status=0
# Whether this is part of another script that ends with the same.
part_of_another=""
# The logs of all scripts, and of those in which tests failed.
logs=()
failed_logs=()
# What runs beside: the process, when it began, and its name.
beside=()

# begin_run SERVER...: prepares the machine for all of them, and lets the servers that are not in SERVERS be made, too. One
# that is part of another finds everything prepared. The extension is built for each server once (build_once), so the
# sources must stay as they are meanwhile.
begin_run() {
    local PG packages to_build=()
    [[ -z ${PG_CONFIG:-} ]] || fail "PG_CONFIG names one server" "For all tests on that one, type: make test PG_CONFIG=$PG_CONFIG"
    if [[ -n ${ID_GEN_BUILDS:-} ]]; then
        part_of_another=yes
        trap end_run EXIT
        return
    fi
    begin_beside

    # All packages at once, and before anything runs beside: apt serves one at a time.
    mapfile -t packages < <(for PG in "${SERVERS[@]%% *}"; do machine_packages; done | sort -u)
    packages+=("${SOURCE_PACKAGES[@]}" "${UNPACKED_PACKAGES[@]}" shellcheck debhelper lintian)
    ((EUID != 0)) || packages+=(debootstrap)
    need_packages "${packages[@]}"
    need_cache

    # What takes minutes to build is built while other things leave a processor idle. If a build fails here, the script
    # that needs the server builds it again, and reports why that fails.
    for PG in "${SERVERS[@]%% *}" "$@"; do has_package "$PG" || to_build+=("$PG"); done
    begin_script "PostgreSQL servers" scripts/servers "${to_build[@]}"
    begin_script "What clients and monitoring need" scripts/clients
    PG=${SERVERS[0]%% *}
    need_machine
    begin_script "Extension for each PostgreSQL" scripts/builds "${SERVERS[@]%% *}"
}

# begin_beside: from here on the extension is built once for each server, and what runs beside ends with this script.
begin_beside() {
    ID_GEN_BUILDS=$(mktemp -d)
    export ID_GEN_BUILDS
    trap end_run EXIT
}

end_run() {
    local each
    for each in "${beside[@]}"; do
        kill -- "-${each%% *}" 2>/dev/null || true
    done
    [[ -n $part_of_another ]] || rm -rf "$ID_GEN_BUILDS"
}

# run_script NAME COMMAND...: runs a command and keeps what it says in the end: its last paragraph, if that has counts.
run_script() {
    local log began=$SECONDS status=0
    log=$(log_of "$1")
    step "$1"
    # In a subshell: what ends meanwhile beside it does not count.
    (time "${@:2}" 2>&1 | tee "$log") 2>"$log.used" || status=$?
    summarize "$1" "$status" $((SECONDS - began)) "${*:2}"
}

# begin_script NAME COMMAND...: the same, but does not wait for it. Its output is shown when it has failed.
begin_script() {
    local log
    log=$(log_of "$1")
    step "$1, beside what follows (see $log)"
    rm -f "$log.ended"
    set -m # for a process group to stop
    # A subshell goes on with SECONDS as they are.
    (
        status=0
        { time nice "${@:2}" </dev/null >"$log" 2>&1; } 2>"$log.used" || status=$?
        echo "$SECONDS ${*:2}" >"$log.ended"
        exit "$status"
    ) &
    set +m
    beside+=("$! $SECONDS $1")
}

# await_scripts: waits for what runs beside.
await_scripts() {
    local each pid began name log ended command status
    for each in "${beside[@]}"; do
        read -r pid began name <<<"$each"
        log=$(log_of "$name")
        [[ -e $log.ended ]] || step "Waiting for: $name (see $log)"
        status=0
        wait "$pid" || status=$?
        ((status == 0)) || { step "$name failed:" && cat "$log" >&2; }
        ended=$SECONDS command=""
        read -r ended command <"$log.ended" || true
        rm -f "$log.ended"
        summarize "$name" "$status" $((ended - began)) "$command"
    done
    beside=()
}

log_of() { printf '%s/%s.log' "$LOGS" "${1//[^a-zA-Z0-9-]/_}"; }

# summarize NAME STATUS SECONDS COMMAND
summarize() {
    local summary time
    time="$(minutes "$3") with $(used <"$(log_of "$1").used")"
    logs+=("$(log_of "$1")")
    summary=$(awk 'BEGIN { RS = "" } { last = $0 } END { print last }' "$(log_of "$1")")
    if [[ $summary != *' passed, '* ]]; then
        summary="$1: failed"
        (($2 != 0)) || summary="$1: done"
    fi
    (($2 == 0)) || {
        scripts_status=1
        failed_logs+=("$(log_of "$1")")
    }
    if [[ $summary == *$'\nIn all: '* ]]; then
        summaries+=("${summary%$'\n'*}") # of others that have said all this
        return
    fi
    summaries+=("$summary, $time")
    (($2 == 0)) || summaries+=("  To repeat it alone: $4")
}

# failures LOG: what pytest and cargo say of the tests that failed, the end of it where that is long.
failures() {
    sed 's/\x1b\[[0-9;]*m//g' "$1" |
        sed -nE '/^=+ (FAILURES|ERRORS) =+$/,/^=+ .* in [0-9.]+s.* =+$/p; /^failures:$/,/^test result: /p' | tail -n 100
}

# slowest_tests LOG...: the ten tests that took longest, in seconds. pytest reports each test, cargo each file of them.
slowest_tests() {
    sed 's/\x1b\[[0-9;]*m//g' "$@" | awk '
        /^==> PostgreSQL [0-9]/ { server = substr($0, 5) ": " }
        /^==> (Core|pg_upgrade)$/ { server = "" }
        $1 ~ /^[0-9.]+s$/ && $2 ~ /^(call|setup|teardown)$/ { $1 = $1 + 0; $2 = server; print }
        / Running .*\(.*deps/ { file = $2 " " $3 }
        / Doc-tests / { file = "documentation of " $2 }
        /^test result: .* finished in / { print $NF + 0, file }' |
        sort --numeric-sort --reverse | sed -n 1,10p # which reads to the end: a closed pipe would count as a failure
}

# end_scripts: what came of them all, and how long each took; fails if one failed. What failed is said again, for it
# happened a long time ago.
end_scripts() {
    local log
    await_scripts
    for log in "${failed_logs[@]}"; do
        [[ -z $part_of_another ]] || break
        step "What failed in $log"
        failures "$log"
    done
    if [[ -z $part_of_another ]] && ((${#logs[@]})); then
        step "The ten slowest tests, in seconds"
        slowest_tests "${logs[@]}"
    fi
    printf '\n'
    printf '%s\n' "${summaries[@]}" "In all: $(minutes "$SECONDS")"
    return "$scripts_status"
}

# used: the processor time that `time` has written, which does not depend on what else the machine does.
TIMEFORMAT='%U %S'
used() { awk 'END { printf "%.1f core-min\n", ($1 + $2) / 60 }'; }

minutes() { printf '%d:%02d min' $(($1 / 60)) $(($1 % 60)); }
