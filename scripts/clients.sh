# shellcheck shell=bash
# What the recipes of docs/clients.md are run with, beside Python: the packages of tests/clients/node, and Java with its
# PostgreSQL driver. What Rust's needs, cargo fetches when the test builds it.
#
# Sourced by lib.sh.

# need_clients: gets what is missing. Where that can't be done, the tests that need it fail; all others run. Who comes while
# another process gets it waits for that.
need_clients() (
    flock 9
    need_node || step "The Node packages could not be fetched: tests/clients/test_node.py will fail"
    need_java || step "Java or its driver could not be fetched: tests/clients/test_java.py will fail"
) 9>"$CACHE/clients.lock"

need_node() {
    local stamp target=$CACHE/node
    { type -P node && type -P npm; } >/dev/null || (need_packages nodejs npm) || return
    stamp=$(node --version && cat tests/clients/node/package-lock.json) || return
    [[ -e $target/stamp && $(<"$target/stamp") == "$stamp" ]] && return
    step "Fetching the Node packages of the client tests into the cache (once)"
    mkdir -p "$target"
    cp tests/clients/node/{package.json,package-lock.json,.npmrc} "$target"
    # What install scripts would do is of no use here, and they are others' programs.
    npm ci --prefix "$target" --ignore-scripts --no-audit --no-fund >&2 || return
    echo "$stamp" >"$target/stamp"
}

need_java() {
    # A Java without its compiler runs no source file.
    type -P javac >/dev/null || (need_packages default-jdk-headless) || return
    [[ ! -e $CACHE/jdbc ]] || return 0
    command -v apt-get >/dev/null || return
    step "Unpacking libpostgresql-jdbc-java into the cache (once)"
    unpack_packages "$CACHE/jdbc" libpostgresql-jdbc-java
}
