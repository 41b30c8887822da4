# shellcheck shell=bash
# What it takes to build for ARM64 on a machine of another processor, and to run what was built: Debian's cross compiler,
# Debian's rustc with the standard library of both, servers of Debian's packages for ARM64, and QEMU, which translates a
# program's instructions as it runs. Everything but what Debian installs lies in the cache.
#
# QEMU keeps the order of memory accesses of the processor below it, so a run here says nothing of a weaker one: see
# docs/design.md, "Memory order".
#
# Sourced by the commands that build for it.

# shellcheck disable=SC2034 # for the commands
ARM64=aarch64-unknown-linux-gnu

# need_arm64: from here on cargo can build for it, and dpkg's tools take it for the processor that packages are for.
need_arm64() {
    [[ $(uname -m) == x86_64 ]] || fail "this is for a machine with an x86-64 processor, and this is one of $(uname -m)"
    need_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static binutils-aarch64-linux-gnu patchelf elfutils
    need_cache
    (
        flock 9
        [[ -e $CACHE/arm64-rust/stamp ]] || make_rust_of_debian
    ) 9>"$CACHE/arm64-rust.lock"
    # What another rustc has built is of no use to this one. For ID_GEN_SOURCES see lib.sh.
    export RUSTC=$CACHE/arm64-rust/rustc CARGO_TARGET_DIR=$CACHE/arm64-target ID_GEN_SOURCES=$ROOT
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
    export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="-isystem /usr/aarch64-linux-gnu/include"
    # It remarks that the compiler is for another.
    eval "$(dpkg-architecture --host-arch arm64 --print-set 2>/dev/null)"
}

# make_rust_of_debian: unpacks the newest rustc that Debian has, with the libraries that it needs to run, and the standard
# library of both processors.
make_rust_of_debian() (
    step "Unpacking Debian's rustc with the standard library for ARM64 into the cache (once)"
    directory=$(mktemp -d "$CACHE/build.XXXXXX")
    trap 'rm -rf "$directory"' EXIT
    chmod 755 "$directory"
    cd "$directory" || exit
    # shellcheck disable=SC2034 # for apt_here
    APT_OPTIONS=(-o APT::Architectures::=amd64 -o APT::Architectures::=arm64)
    apt_here deb forky sid >&2
    "${APT[@]}" install --download-only --no-install-recommends -y -o Debug::NoLocking=1 rustc libstd-rust-dev:arm64 >&2
    for package in cache/archives/*_amd64.deb cache/archives/libstd-rust-dev_*_arm64.deb; do
        dpkg-deb --extract "$package" files
    done
    prefix=$CACHE/arm64-rust
    # Through the linker, because some of the libraries do not look where the program does.
    cat >files/rustc <<END
#!/bin/sh
exec $prefix/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path $prefix/usr/lib/x86_64-linux-gnu \\
    $prefix/usr/bin/rustc --sysroot $prefix/usr "\$@"
END
    chmod +x files/rustc
    rm -rf "$prefix"
    mv files "$prefix"
    "$prefix/rustc" --version >"$prefix/stamp"
)

# arm64_server SERVER: unpacks that server for ARM64 into the cache unless it is there, and prints its pg_config. Each of its
# programs is a script that has QEMU run it, so whatever starts a program needs to know nothing of this.
arm64_server() {
    local prefix=$CACHE/pg$1-arm64
    unpack_once "$prefix" "PostgreSQL $1 for ARM64" "$(declare -f unpack_arm64 unpack_debian)" unpack_arm64 "$1" "$prefix" || return
    echo "$prefix/usr/lib/postgresql/$1/bin/pg_config"
}

# unpack_arm64 MAJOR PREFIX
unpack_arm64() {
    local program
    # shellcheck disable=SC2034 # for apt_here
    APT_OPTIONS=(-o APT::Architecture=arm64 -o APT::Architectures::=arm64)
    unpack_debian "$@"
    find files/usr/lib/postgresql -type f -executable -print0 | while IFS= read -r -d '' program; do
        patchelf --print-interpreter "$program" || continue
        mv "$program" "$program.arm64"
        # shellcheck disable=SC2016 # for the script
        printf '#!/bin/sh\nexec qemu-aarch64-static -0 "$0" "$0.arm64" "$@"\n' >"$program"
        chmod +x "$program"
    done
}
