#!/usr/bin/env bash
# Provides MetalLB's own programs and prints their folder as the last line on stdout: `controller`, `speaker`, and in
# `crds` what they are installed with. Progress goes to stderr.
#
# They are built once, from the Go module of this version, whose checksum is compared.
#
#   MOORING_CACHE  where they are kept (default: ~/.cache/mooring)
set -euo pipefail

module=go.universe.tf/metallb
version=v0.16.1
sum=h1:iVtjCslcUFMOEvuNeAyW2ygZxyW+6YjnNcEuCTOZezc=

built=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/metallb/$version
say() { echo "metallb: $*" >&2; }
die() { say "$*"; exit 1; }

if [[ ! -x $built/controller || ! -x $built/speaker || ! -d $built/crds ]]; then
    command -v go >/dev/null || die "no Go found to build $module: install Go 1.21 or newer"
    mkdir -p "$built"
    exec 9>"$built/.lock"
    flock 9
    say "building MetalLB $version once (about eight minutes on two cores), kept in $built"
    scratch=$(mktemp -d "$built/.scratch.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    found=$(cd "$scratch" && GOWORK=off go mod download -json "$module@$version")
    [[ $(sed -n 's/.*"Sum": "\(.*\)".*/\1/p' <<<"$found") == "$sum" ]] || die "$module $version has another checksum than $sum"
    folder=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$found")
    (cd "$scratch" && GOWORK=off GOFLAGS=-trimpath CGO_ENABLED=0 GOBIN=$scratch/bin \
        go install "$module/controller@$version" "$module/speaker@$version" >&2)
    rm -rf "$built/crds"
    cp -r "$folder/config/crd/bases" "$built/crds"
    chmod -R u+w "$built/crds"
    mv -f "$scratch"/bin/{controller,speaker} "$built/"
fi
echo "$built"
