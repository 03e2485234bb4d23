#!/usr/bin/env bash
# Provides the kube-apiserver of the oldest Kubernetes that the chart permits, and prints its folder as the last
# line on stdout: a KUBEBUILDER_ASSETS for the tests, which take the other programs from ../build.sh. Progress goes
# to stderr.
#
#   MOORING_CACHE  where it is kept (default: ~/.cache/mooring)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/oldest-control-plane
say() { echo "oldest control plane: $*" >&2; }

version=$(sed -n 's|^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' "$here/go.mod" | head -n1)
minor=$(cut -d. -f2 <<<"$version")
permitted=$(sed -n 's/^kubeVersion: ">=1\.\([0-9]*\)\..*/\1/p' "$here/../../../deploy/chart/mooring/Chart.yaml")
if [[ $minor != "$permitted" ]]; then
    say "the chart permits Kubernetes 1.$permitted, $here/go.mod has $version: raise both together"
    exit 1
fi
built=$cache/$(cat "$here/go.mod" "$here/go.sum" | sha256sum | cut -c1-16)
if [[ ! -x $built/kube-apiserver ]]; then
    command -v go >/dev/null || { say "no Go found to build it: install Go 1.21 or newer"; exit 1; }
    mkdir -p "$built"
    exec 9>"$built/.lock"
    flock 9
fi
if [[ ! -x $built/kube-apiserver ]]; then # nor did another run build it meanwhile
    say "building kube-apiserver $version once (about ten minutes on two cores), kept in $built"
    stamp=k8s.io/component-base/version
    scratch=$(mktemp -d "$built/.scratch.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    (cd "$here" && GOWORK=off CGO_ENABLED=0 go build -mod=readonly -trimpath \
        -ldflags "-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor" \
        -o "$scratch/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver >&2)
    mv -f "$scratch/kube-apiserver" "$built/kube-apiserver"
fi
echo "$built"
