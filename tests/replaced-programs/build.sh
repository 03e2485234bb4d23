#!/usr/bin/env bash
# Provides the programs of a project that Mooring replaces, and prints their folder as the last line on stdout.
# Progress goes to stderr.
#
#   build.sh metallb    `controller`, `speaker`, and in `crds` what they are installed with
#   build.sh kube-vip   `kube-vip`
#
# They are built once, from the Go module of this version, whose checksum is compared.
#
#   MOORING_CACHE  where they are kept (default: ~/.cache/mooring)
set -euo pipefail

name=${1:-}
case $name in
metallb)
    module=go.universe.tf/metallb
    version=v0.16.1
    sum=h1:iVtjCslcUFMOEvuNeAyW2ygZxyW+6YjnNcEuCTOZezc=
    packages=(./controller ./speaker)
    took='eight minutes'
    ;;
kube-vip)
    # The newest one that the module proxy still has.
    module=github.com/kube-vip/kube-vip
    version=v0.9.1
    sum=h1:nu8Shq+EDB3zQ0nsYLrd5UU3SUI8AoffiFQpK0fGELM=
    packages=(.)
    took='five minutes'
    ;;
*)
    echo "usage: $0 metallb|kube-vip" >&2
    exit 2
    ;;
esac

built=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/$name/$version
say() { echo "$name: $*" >&2; }
die() { say "$*"; exit 1; }

if [[ ! -e $built/complete ]]; then
    command -v go >/dev/null || die "no Go found to build $module: install Go 1.21 or newer"
    mkdir -p "$built"
    exec 9>"$built/.lock"
    flock 9
    say "building $name $version once (about $took on two cores), kept in $built"
    scratch=$(mktemp -d "$built/.scratch.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    found=$(cd "$scratch" && GOWORK=off go mod download -json "$module@$version")
    [[ $(sed -n 's/.*"Sum": "\(.*\)".*/\1/p' <<<"$found") == "$sum" ]] || die "$module $version has another checksum than $sum"
    folder=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$found")
    mkdir "$scratch/bin"
    (cd "$folder" && GOWORK=off GOFLAGS=-trimpath CGO_ENABLED=0 go build -o "$scratch/bin/" "${packages[@]}" >&2)
    mv -f "$scratch"/bin/* "$built/"
    if [[ -d $folder/config/crd/bases ]]; then
        rm -rf "$built/crds"
        cp -r "$folder/config/crd/bases" "$built/crds"
        chmod -R u+w "$built/crds"
    fi
    touch "$built/complete"
fi
echo "$built"
