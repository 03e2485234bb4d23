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
. deploy/release/debian.sh
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
    mkdir -p "$root"
    sources=$(debian_sources "$suite") || die "$lacking (this machine takes no packages from Debian)"
    debian_fetch "$root/apt" rustc "libstd-rust-dev:$architecture" <<<"$sources" \
        || die "$lacking (Debian's could not be fetched)"
    for package in "$root"/apt/cache/archives/*.deb; do
        case $package in
            */libstd-rust-dev_*) ;;
            # Of what rustc depends on, only libraries: its C compiler is not run.
            */binutils*_amd64.deb | */gcc-[0-9]*_amd64.deb | */cpp*_amd64.deb | */libc6-dev*) continue ;;
            *_amd64.deb) ;;
            *) continue ;;
        esac
        dpkg-deb --extract "$package" "$root"
    done
    rm -rf "$root/apt"
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
