#!/usr/bin/env bash
# Provides what `make test-install` runs on nodes, and prints its folder as the last line on stdout: kubelet,
# containerd with its shim and ctr, and kube-scheduler. Progress goes to stderr.
#
# They are built once per go.sum and Go version, as the control plane is (../control-plane/build.sh). Two
# modules, since Kubernetes and containerd want other versions of what both stand on. The kubelet's has the
# versions of the control plane's: most of it is compiled then.
#
#   MOORING_CACHE  where they are kept (default: ~/.cache/mooring)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/node-programs
export GOWORK=off CGO_ENABLED=0

say() { echo "node programs: $*" >&2; }
die() { say "$*"; exit 1; }

go_version=$(cd "$here/kubelet" && go env GOVERSION) ||
    die "no Go found to build the kubelet with: install Go 1.21 or newer (it fetches 1.26 by itself)"
sum=$(cat "$here"/*/go.mod "$here"/*/go.sum | sha256sum | cut -c1-16)
built=$cache/$sum-$go_version
version_of() { sed -n "s|^[[:space:]]*$1 \(v[0-9.]*\).*|\1|p" "$here/$2/go.mod" | head -n1; }

build() { # module's folder, flags, packages
    local module=$1 started=$SECONDS
    shift
    (cd "$here/$module" && go build -mod=readonly -trimpath -o "$scratch/" "$@") >&2
    say "$module built in $((SECONDS - started)) s"
}

if [[ ! -d $built ]]; then
    mkdir -p "$cache"
    exec 9>"$cache/.lock"
    flock 9
fi
if [[ ! -d $built ]]; then
    say "building kubelet, kube-scheduler and containerd once (about four minutes on two cores), kept in $built"
    scratch=$(mktemp -d "$cache/.scratch.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    kubernetes=$(version_of k8s.io/kubernetes kubelet)
    stamp=k8s.io/component-base/version
    minor=$(cut -d. -f2 <<<"$kubernetes")
    # As the control plane is stamped: what is the same is not compiled again.
    build kubelet -ldflags "-s -w -X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor -X $stamp.gitTreeState=clean" \
        k8s.io/kubernetes/cmd/{kubelet,kube-scheduler}
    containerd=github.com/containerd/containerd/v2
    build containerd -tags no_btrfs,no_devmapper,no_tracing,no_zfs \
        -ldflags "-s -w -X $containerd/version.Version=$(version_of "$containerd" containerd)" \
        "$containerd"/cmd/{containerd,containerd-shim-runc-v2,ctr}
    chmod 755 "$scratch"
    mv -T "$scratch" "$built" # the same file system: whole or not at all
fi
echo "$built"
