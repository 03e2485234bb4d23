#!/usr/bin/env bash
# Builds the programs of a release for one architecture, and prints the folder that has them and a file
# `toolchain` that says what they were built with. The same commit and toolchain give the same bytes, in
# whichever folder.
#
#   deploy/release/build.sh amd64|arm64
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
architecture=${1:-}

. deploy/release/debian.sh

say() { echo "release: $*" >&2; }
die() { say "$*"; exit 1; }

case $architecture in
    amd64) machine=x86_64 ;;
    arm64) machine=aarch64 ;;
    *) die "no architecture '$architecture': it is amd64 or arm64" ;;
esac
target=$machine-unknown-linux-gnu
cc=$machine-linux-gnu-gcc

if ! command -v "$cc" >/dev/null; then
    packages=(gcc-"${machine/_/-}"-linux-gnu libc6-dev)
    [[ $(uname -m) == "$machine" ]] || packages[1]=libc6-dev-$architecture-cross
    [[ $(id -u) -eq 0 ]] || die "$cc is missing: install ${packages[*]}"
    say "installing ${packages[*]}"
    told=$(apt-get update 2>&1 && apt-get install --yes --no-install-recommends "${packages[@]}" 2>&1) \
        || die "could not install ${packages[*]}: $(tail -n 3 <<<"$told")"
fi

export MOORING_RUSTC MOORING_SOURCE=$PWD
MOORING_RUSTC=$(deploy/release/toolchain.sh "$target")
export RUSTC=$PWD/deploy/release/rustc.sh
export CARGO_TARGET_DIR=$PWD/target/release-build CARGO_INCREMENTAL=0
# Flags of this machine's user would be part of what is built.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS RUSTC_WRAPPER CARGO_BUILD_RUSTFLAGS
name=${target//-/_}
export "CARGO_TARGET_${name^^}_LINKER=$cc" "CC_$name=$cc" "AR_$name=$machine-linux-gnu-ar"
export "CFLAGS_$name=-ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo -ffile-prefix-map=$PWD=/mooring"

say "building for $architecture with $($RUSTC --version)"
# Without the rest of the workspace, whose features would be the programs' too.
cargo build --quiet --release --locked --target "$target" \
    --package mooring-central --package mooring-node --package kubectl-mooring >&2

programs=target/release-programs/$architecture
rm -rf "$programs"
install -D --target-directory "$programs" \
    "$CARGO_TARGET_DIR/$target"/release/{mooring-central,mooring-node,kubectl-mooring}
{
    $RUSTC --version
    "$cc" --version | head -n1
} >"$programs/toolchain"

# --- what the images contain -----------------------------------------------------------------------
# The libraries are those of this machine's own packages, or of the same packages for the other architecture: what
# cross compilers come with gets no security updates.
libraries=
if [[ $(uname -m) != "$machine" ]]; then
    libraries=$PWD/$programs/libraries
    sources=$(debian_sources) || die "the libraries of $architecture images are Debian's, and this machine takes no packages from Debian"
    debian_fetch "$PWD/$programs/apt" "libc6:$architecture" "libgcc-s1:$architecture" <<<"$sources" \
        || die "Debian's libraries for $architecture could not be fetched"
    for package in "$programs"/apt/cache/archives/*_"$architecture".deb; do
        dpkg-deb --extract "$package" "$libraries"
    done
fi
taken=$(for image in central node; do
    deploy/image-root.sh "$image" "$programs/mooring-$image" "$cc" "$programs/images/$image" "$libraries"
done | sort --unique)
# The packages that these files are of, and where their licences are.
package_of() {
    case $1 in
        */ca-certificates.crt) echo ca-certificates ;;
        "${libraries:-/none}"/*/libgcc_s.*) echo libgcc-s1 ;;
        "${libraries:-/none}"/*) echo libc6 ;;
        *) { dpkg-query --search "$1" || dpkg-query --search "${1#/usr}"; } 2>/dev/null | sed 's/[:,].*//;q' ;;
    esac
}
version_of() {
    local file
    for file in "$programs/apt/cache/archives/$1"_*_"$architecture".deb; do
        if [[ -e $file ]]; then
            dpkg-deb --field "$file" Version
            return
        fi
    done
    dpkg-query --show --showformat '${Version}\n' "$1:$architecture" 2>/dev/null \
        || dpkg-query --show --showformat '${Version}\n' "$1"
}
distribution=$(. /etc/os-release && echo "$ID")
for file in $taken; do
    package=$(package_of "$file")
    [[ -n $package ]] || die "$file is of no package; install Debian's, whose licence and version are known"
    echo "$package"
done | sort --unique | while read -r package; do
    version=$(version_of "$package")
    documents=/usr/share/doc/$package/copyright
    [[ ! -e $libraries$documents ]] || documents=$libraries$documents
    echo "$architecture $distribution $package $version" >>"$programs/packages"
    printf '%s %s\t%s\n' "$package" "$version" "$documents" >>"$programs/licences"
done
standard=
for file in "$($RUSTC --print sysroot)"/share/doc/{rust/COPYRIGHT-library.html,libstd-rust-dev/copyright}; do
    [[ ! -e $file ]] || standard=$file
done
[[ -n $standard ]] || die "this Rust toolchain comes without the licences of its standard library"
printf 'the standard library of %s\t%s\n' "$($RUSTC --version | cut -d' ' -f1,2)" "$standard" >>"$programs/licences"

# --- do they run? ----------------------------------------------------------------------------------
# With the libraries of the image alone; in emulation where the machine is another one.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
run() {
    local root=$1
    shift
    if [[ $(uname -m) == "$machine" ]]; then
        local loader
        loader=$(find "$root" -name 'ld-linux-*')
        "$loader" --library-path "$root/lib/$machine-linux-gnu" "$@"
    elif command -v "qemu-$machine-static" >/dev/null; then
        "qemu-$machine-static" -L "$root" "$@"
    else
        say "$* is not tried: install qemu-user-static"
        echo "untried $version"
    fi
}
for program in mooring-central mooring-node kubectl-mooring; do
    root=$programs/images/central
    [[ $program != mooring-node ]] || root=$programs/images/node
    told=$(run "$root" "$programs/$program" --version)
    [[ $told == *"$version"* ]] || die "$program --version for $architecture said: $told"
done
# What has a path of this machine in it would be other bytes elsewhere.
for path in "$PWD" "${CARGO_HOME:-$HOME/.cargo}" "$($RUSTC --print sysroot)/lib/rustlib"; do
    for program in mooring-central mooring-node kubectl-mooring; do
        ! grep --quiet --fixed-strings --text "$path" "$programs/$program" \
            || die "$program for $architecture has the path $path in it"
    done
done
# kubectl-mooring runs on machines of others: which C library it takes is part of what is published.
oldest=$(LC_ALL=C readelf --version-info --wide "$programs/kubectl-mooring" \
    | grep -o 'GLIBC_[0-9.]*' | sort --version-sort --unique | tail -n1)
echo "$oldest" >"$programs/libc"
rm -rf "$programs/apt"
say "programs for $architecture are built and run, kubectl-mooring with ${oldest/_/ } and newer, ${SECONDS} s"
echo "$programs"
