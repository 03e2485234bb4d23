#!/usr/bin/env bash
# Renders deploy/manifests from the Helm chart.
#
#   deploy/render.sh           writes deploy/manifests/mooring.yaml anew
#   deploy/render.sh --check   changes nothing: lints the chart, tries what it must refuse, and
#                              fails with a diff where the file is not up to date
#   deploy/render.sh --helm    only prints the path of the pinned helm
#
# Helm itself is built once from the Go module in deploy/helm, and kept outside the build tree
# (MOORING_CACHE, by default ~/.cache/mooring), so that everybody renders with the same version.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}/helm
chart=$here/chart/mooring
manifests=$here/manifests

say() { echo "render: $*" >&2; }

# Builds helm unless the cache has it; sets `helm`.
provide_helm() {
    local go_version sum
    go_version=$(cd "$here/helm" && GOWORK=off go env GOVERSION) || {
        say "no Go found to build helm with: install Go 1.21 or newer (it fetches 1.26 by itself)"
        exit 1
    }
    sum=$(cat "$here/helm/go.mod" "$here/helm/go.sum" | sha256sum | cut -c1-16)
    helm=$cache/$sum-$go_version/helm
    [[ -x $helm ]] && return
    say "building helm once (about two minutes on two cores), kept in $(dirname "$helm")"
    mkdir -p "$(dirname "$helm")"
    (cd "$here/helm" && GOWORK=off CGO_ENABLED=0 go build -mod=readonly -trimpath \
        -ldflags "-s -w" -o "$helm.$$" helm.sh/helm/v4/cmd/helm)
    mv -f "$helm.$$" "$helm"
    say "built after ${SECONDS} s"
}

# Everything of the chart, as one file, on stdout.
render() {
    cat <<'HEADER'
# Rendered from deploy/chart/mooring by deploy/render.sh with the values of
# deploy/manifests/values.yaml. Do not edit here: change the chart, then render again.
HEADER
    "$helm" template mooring "$chart" \
        --namespace mooring-system \
        --values "$manifests/values.yaml" \
        --kube-version 1.36.0 \
        --include-crds
}

# What the chart must refuse, and with which words.
refuses() {
    local words=$1 answer
    shift
    if answer=$("$helm" template mooring "$chart" --set cloudProvider=cloudlycke "$@" 2>&1); then
        say "the chart took: $*"
        return 1
    fi
    if [[ $answer != *"$words"* ]]; then
        say "the chart refused $* without the words '$words': $answer"
        return 1
    fi
}

check() {
    local values
    for values in "$manifests/values.yaml" "$chart"/ci/*-values.yaml; do
        "$helm" lint --quiet --strict "$chart" --values "$values"
        "$helm" template mooring "$chart" --values "$values" >/dev/null
    done
    refuses "cloudProvider is not set" --set cloudProvider=
    refuses "/cloudProvider" --set cloudProvider=aws
    refuses "/cloudProvider" --set 'cloudProvider=linode\,linode'
    refuses "/cloudProvider" --set 'cloudProvider=linode\,'
    refuses "is Mooring's own" \
        --set 'nodeDaemon.annotationKeys={mooring.dev/corrected-by-central}'
    refuses "belongs to Kubernetes" \
        --set 'nodeDaemon.additionalLabelKeys={node-role.kubernetes.io/control-plane}'
    refuses "machines.configMap are both set" --set machines.file=x,machines.configMap=y
    refuses "set both" --set apiServer.host=192.0.2.1
    refuses "replica" --set central.replica=3
    if ! diff -u "$manifests/mooring.yaml" <(render); then
        say "deploy/manifests/mooring.yaml is not what the chart gives; run deploy/render.sh"
        return 1
    fi
    say "deploy/manifests is up to date"
}

provide_helm
case ${1:-} in
    --helm)
        echo "$helm"
        ;;
    --check)
        check
        ;;
    "")
        render >"$manifests/.mooring.yaml"
        mv -f "$manifests/.mooring.yaml" "$manifests/mooring.yaml"
        say "wrote deploy/manifests/mooring.yaml"
        ;;
    *)
        say "unknown argument $1; it takes --check, --helm, or nothing"
        exit 2
        ;;
esac
