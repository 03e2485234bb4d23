#!/usr/bin/env bash
# Provides the five programs of the test control plane and prints their folder as the last line
# on stdout; progress goes to stderr.
#
#   KUBEBUILDER_ASSETS  a folder whose programs are used as they are; only missing ones are built
#   MOORING_CACHE       where built programs are kept (default: ~/.cache/mooring)
#
# Programs are built once per go.sum and Go version, outside the build tree, so that a fresh
# clone on the same machine does not build again.
set -euo pipefail

programs=(etcd kube-apiserver kubectl kube-controller-manager kube-proxy)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/control-plane

say() { echo "control plane: $*" >&2; }
die() { say "$*"; exit 1; }

package_of() {
    case $1 in
        etcd) echo go.etcd.io/etcd/server/v3 ;;
        *) echo "k8s.io/kubernetes/cmd/$1" ;;
    esac
}

# Which programs the folder $1 lacks.
missing_in() {
    local program
    for program in "${programs[@]}"; do
        [[ -x $1/$program ]] || echo "$program"
    done
}

# --- programs that the user brings -------------------------------------------------------------
assets=
needed=("${programs[@]}")
if [[ -n ${KUBEBUILDER_ASSETS:-} && -d $KUBEBUILDER_ASSETS ]]; then
    assets=$(cd "$KUBEBUILDER_ASSETS" && pwd)
    mapfile -t needed < <(missing_in "$assets")
    if [[ ${#needed[@]} -eq 0 ]]; then
        echo "$assets"
        exit 0
    fi
fi

# --- the cache folder --------------------------------------------------------------------------
sum=$(sha256sum "$here/go.mod" "$here/go.sum" | cut -d' ' -f1 | sha256sum | cut -c1-16)
go_version=
if command -v go >/dev/null; then
    # In the module's folder, so that a toolchain which go.mod asks for is the one that counts.
    go_version=$(cd "$here" && GOWORK=off go env GOVERSION 2>/dev/null) || go_version=
fi
if [[ -n $go_version ]]; then
    built=$cache/$sum-$go_version
else
    # Without Go an earlier build of the same sources will do.
    built=
    for candidate in "$cache/$sum"-go*; do
        [[ -d $candidate && -z $(missing_in "$candidate") ]] && built=$candidate
    done
    if [[ -z $built ]]; then
        die "no usable Go found to build ${needed[*]}: install Go 1.21 or newer (it fetches 1.26 by itself) or set KUBEBUILDER_ASSETS to a folder that has them"
    fi
fi
mkdir -p "$built"

# --- building what is still missing ------------------------------------------------------------
stamp=k8s.io/component-base/version
version=$(sed -n 's|^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' "$here/go.mod" | head -n1)
minor=$(cut -d. -f2 <<<"$version")
ldflags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor"
ldflags+=" -X $stamp.gitTreeState=clean"

build() { # program, its number, of how many
    local program=$1 position="$2 of $3" started=$SECONDS pid
    say "building $program ($position), ${SECONDS} s so far"
    (cd "$here" && exec env GOWORK=off CGO_ENABLED=0 go build -mod=readonly -trimpath \
        -ldflags "$ldflags" -o "$scratch/$program" "$(package_of "$program")") \
        >"$scratch/$program.log" 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        if (((SECONDS - started) % 20 == 0 && SECONDS > started)); then
            say "still building $program ($position), ${SECONDS} s so far"
        fi
    done
    if ! wait "$pid"; then
        tail -n 20 "$scratch/$program.log" >&2
        die "building $program failed, see the lines above"
    fi
    mv -f "$scratch/$program" "$built/$program" # the same file system: whole or not at all
}

still_needed() {
    local program
    for program in "${needed[@]}"; do
        [[ -x $built/$program ]] || echo "$program"
    done
}

if [[ -n $(still_needed) ]]; then
    exec 9>"$built/.lock"
    if ! flock --nonblock 9; then
        say "another run is building, waiting for it"
        flock 9
    fi
    mapfile -t todo < <(still_needed)
    if [[ ${#todo[@]} -gt 0 ]]; then
        say "building ${#todo[@]} programs once (about 4 minutes on two cores), kept in $built"
        scratch=$(mktemp -d "$built/.scratch.XXXXXX")
        trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$scratch"' EXIT
        trap 'exit 130' INT TERM
        number=0
        for program in "${todo[@]}"; do
            number=$((number + 1))
            build "$program" "$number" "${#todo[@]}" 9>&-
        done
        say "all built after ${SECONDS} s"
    fi
    exec 9>&-
fi

# --- one folder with all five ------------------------------------------------------------------
if [[ -n $assets ]]; then
    joined=$cache/joined-$(echo "$assets $built" | sha256sum | cut -c1-16)
    mkdir -p "$joined"
    for program in "${programs[@]}"; do
        source=$built/$program
        [[ -x $assets/$program ]] && source=$assets/$program
        ln -sfn "$source" "$joined/.$program.$$"
        mv -fT "$joined/.$program.$$" "$joined/$program"
    done
    echo "$joined"
else
    echo "$built"
fi
