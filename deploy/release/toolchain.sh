#!/usr/bin/env bash
# Prints how to call a rustc that can compile for a target: this machine's own, if it has the target's
# standard library (`rustup target add` brings it), else Debian's, whose packages are unpacked into the cache
# without installing them. Needs no root.
#
#   deploy/release/toolchain.sh aarch64-unknown-linux-gnu
#
#   MOORING_CACHE  where Debian's compiler is kept (default: ~/.cache/mooring)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$1
# The first suite of Debian's whose compiler is new enough.
suite=forky
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
cache=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/rustc-$suite

say() { echo "toolchain: $*" >&2; }
die() { say "$*"; exit 1; }

# --- this machine's own --------------------------------------------------------------------------
if compgen -G "$(rustc --print target-libdir --target "$target")/libstd-*.rlib" >/dev/null; then
    echo rustc
    exit
fi

# --- Debian's ------------------------------------------------------------------------------------
case $target in
    x86_64-*) architecture=amd64 ;;
    aarch64-*) architecture=arm64 ;;
    *) die "no Debian architecture is known for $target" ;;
esac
lacking="this Rust toolchain has no standard library for $target: run 'rustup target add $target'"
[[ $(uname -m) == x86_64 ]] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null \
    || die "$lacking"
root=$cache/$architecture
if [[ ! -e $root/complete ]]; then
    say "this Rust toolchain has no standard library for $target; unpacking Debian's compiler from $suite, once"
    rm -rf "$root"
    mkdir -p "$root"/apt/{lists,cache/archives}/partial
    apt=$root/apt
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [[ -e $keyring ]] || die "$lacking (Debian's packages cannot be verified: $keyring is missing)"
    # The mirror is the one that this machine takes its packages from.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep '/debian/\?$' | head -n1) \
        || die "$lacking (no Debian mirror is configured here)"
    echo "deb [signed-by=$keyring] $mirror $suite main" >"$apt/sources.list"
    : >"$apt/status"
    cat >"$apt/apt.conf" <<CONF
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State "$apt";
Dir::State::Lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
CONF
    export APT_CONFIG=$apt/apt.conf
    # Only libraries: what else rustc depends on, such as a C compiler, is not run.
    { apt-get update && apt-get install --yes --download-only libstd-rust-dev "libstd-rust-dev:$architecture" \
        && cd "$apt/cache/archives" && apt-get download rustc && cd - ; } >"$apt/log" 2>&1 || {
        tail -n 5 "$apt/log" >&2
        die "$lacking (Debian's could not be fetched)"
    }
    for package in "$apt"/cache/archives/*_amd64.deb "$apt"/cache/archives/libstd-rust-dev_*_"$architecture".deb; do
        dpkg-deb --extract "$package" "$root"
    done
    rm -rf "$apt"
    touch "$root/complete"
fi
libraries=$root/usr/lib/x86_64-linux-gnu
rustc="$libraries/ld-linux-x86-64.so.2 --library-path $libraries $root/usr/bin/rustc --sysroot $root/usr"
version=$($rustc --version)
has=$(cut -d' ' -f2 <<<"$version")
[[ $(printf '%s\n' "$needed" "$has" | sort --version-sort | head -n1) == "$needed" ]] \
    || die "$lacking (Debian's compiler is $has, and $needed is needed)"
say "using Debian's $version for $target"
echo "$rustc"
