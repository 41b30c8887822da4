#!/usr/bin/env bash
# What must hold of the Debian package on a system that has never seen the project. `scripts/test-deb` runs it there, as
# root and with the package as the argument; the system is thrown away afterwards.

set -euo pipefail

deb=$1
package=$(dpkg-deb --field "$deb" Package)
version=$(dpkg-deb --field "$deb" Version)
major=${package//[^0-9]/}

step() { printf '\n--> %s\n' "$*"; }
fail() {
    printf 'failed: %s\n' "$*" >&2
    exit 1
}

mount -t proc proc /proc
mount -t tmpfs tmpfs /dev/shm  # for the server
mount -t devpts devpts /dev/pts  # for apt's log

step "It installs, with all it depends on"
apt-get update -q
apt-get install -y -q --no-install-recommends "$deb"
rm "$deb"
dpkg --verify "$package"
library=/usr/lib/postgresql/$major/lib/id_gen.so
(($(stat --format %s "$library") <= 3000000)) || fail "$library, which every session loads, is larger than 3 MB"
doc=/usr/share/doc/$package
[[ -s $doc/THIRD-PARTY-LICENSES ]] || fail "no licences of the crates in the libraries"
grep -qF "$doc/THIRD-PARTY-LICENSES" "$doc/copyright" || fail "the copyright file does not mention them"

# works OPTION...: on a cluster with these settings.
works() {
    local ids
    ids=$(pg_virtualenv -v "$major" "$@" -o id_gen.worker_id=1 \
        psql --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 \
        --command 'CREATE EXTENSION id_gen' \
        --command "SELECT 'installed', extversion FROM pg_extension WHERE extname = 'id_gen'" \
        --command 'CREATE EXTENSION id_gen_mask' \
        --command "SELECT 'masks', extversion FROM pg_extension WHERE extname = 'id_gen_mask'" \
        --command 'CREATE EXTENSION id_gen_tools' \
        --command "SELECT 'tools', extversion FROM pg_extension WHERE extname = 'id_gen_tools'" \
        --command "SELECT 'snowflake', s, p.worker_id FROM snowflake_next() s, snowflake_parse(s) p" \
        --command "SELECT 'uuid', u, now() - uuidv7_timestamp(u) < interval '1 minute' FROM public.uuidv7() u")
    echo "$ids"
    grep -qFx "installed|${version%-*}" <<<"$ids" || fail "the extension is not of the package's version, $version"
    grep -qFx "masks|${version%-*}" <<<"$ids" || fail "id_gen_mask is not of the package's version, $version"
    grep -qFx "tools|${version%-*}" <<<"$ids" || fail "id_gen_tools is not of the package's version, $version"
    grep -qEx 'snowflake\|[0-9]+\|1' <<<"$ids" || fail "no snowflake of worker 1"
    grep -qEx 'uuid\|[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\|t' <<<"$ids" || fail "no UUIDv7 of now"
}

step "It works on a throwaway cluster"
works -o shared_preload_libraries=id_gen

if ((major >= 17)); then
    step "It works on one that was not started with it"
    works
fi

step "Purged, it leaves nothing behind"
apt-get purge -y -q "$package"
! dpkg-query --show "$package" 2>/dev/null || fail "dpkg still knows $package"
left=$(find / -xdev \( -iname '*id_gen*' -o -iname '*id-gen*' \))
[[ -z $left ]] || fail "left behind: $left"

step "$package $version installs, works and is gone again"
