#!/usr/bin/env bash
# Renders deploy/manifests from the Helm chart.
#
#   deploy/render.sh           writes the files of deploy/manifests anew
#   deploy/render.sh --check   changes nothing: lints the chart, tries what it must refuse, and
#                              fails with a diff where the file is not up to date
#   deploy/render.sh --helm    only prints the path of the pinned helm
#   deploy/render.sh --release CHART FOLDER
#                              writes them from another chart into another folder: those of a release
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
        --include-crds | workloads_last
}

# Moves what starts Pods behind all else: a daemon writes nothing before it finds the admission policies.
workloads_last() {
    awk 'BEGIN { RS = "\n---\n"; ORS = "" }
        NR == 1 { print; next }
        /\nkind: (DaemonSet|Deployment)\n/ { last = last "\n---\n" $0; next }
        { print "\n---\n" $0 }
        END { print last }'
}

# What central may do besides with PhoenixNAP in one mode, and what its policies then say, on stdout.
render_phoenixnap() {
    cat <<HEADER
# What changes for PhoenixNAP with $1: apply it after mooring.yaml. Rendered from
# deploy/chart/mooring by deploy/render.sh. Do not edit here: change the chart, then render again.
HEADER
    "$helm" template mooring "$chart" \
        --namespace mooring-system \
        --values "$manifests/values.yaml" \
        --set cloudProvider=phoenixnap --set "phoenixnap.loadBalancer=$1://any" \
        --kube-version 1.36.0 \
        --show-only templates/central-phoenixnap.yaml \
        "${@:2}"
}

# What central may do besides with --endpoint-aware-members, on stdout.
render_endpoints() {
    cat <<'HEADER'
# What mooring-central may do besides with --endpoint-aware-members: apply it after mooring.yaml.
# Rendered from deploy/chart/mooring by deploy/render.sh. Do not edit here: change the chart, then
# render again.
HEADER
    "$helm" template mooring "$chart" \
        --namespace mooring-system \
        --values "$manifests/values.yaml" \
        --set central.loadBalancers.endpointAwareMembers=true \
        --kube-version 1.36.0 \
        --show-only templates/central-endpoints.yaml
}

# What central may do besides where load balancers present certificates from Secrets, on stdout.
render_secrets() {
    cat <<'HEADER'
# What mooring-central may do besides where load balancers of Linode present certificates from Secrets:
# apply it after mooring.yaml. Rendered from deploy/chart/mooring by deploy/render.sh. Do not edit here:
# change the chart, then render again.
HEADER
    "$helm" template mooring "$chart" \
        --namespace mooring-system \
        --values "$manifests/values.yaml" \
        --set cloudProvider=linode \
        --kube-version 1.36.0 \
        --show-only templates/central-secrets.yaml
}

# What the node daemons may do besides with --metrics-secure-bind-address, and who may then read what, on stdout.
render_metrics() {
    cat <<'HEADER'
# What the node daemons may do besides with --metrics-secure-bind-address, and the ServiceAccount
# monitoring/prometheus, which may read /metrics of both programs: apply it after mooring.yaml. Rendered from
# deploy/chart/mooring by deploy/render.sh. Do not edit here: change the chart, then render again.
HEADER
    "$helm" template mooring "$chart" \
        --namespace mooring-system \
        --values "$manifests/values.yaml" \
        --set nodeDaemon.secureMetrics.enabled=true \
        --set-json 'metrics.readers=[{"kind":"ServiceAccount","name":"prometheus","namespace":"monitoring"}]' \
        --kube-version 1.36.0 \
        --show-only templates/node-metrics.yaml --show-only templates/metrics-reader.yaml
}

# What the policy about central and Nodes says where central gives out pod CIDRs and makes routes, on stdout.
render_pod_network() {
    cat <<'HEADER'
# What mooring-central may write besides with --allocate-node-cidrs and --enable-route-controller: apply it
# after mooring.yaml. Rendered from deploy/chart/mooring by deploy/render.sh. Do not edit here: change the
# chart, then render again.
HEADER
    "$helm" template mooring "$chart" \
        --namespace mooring-system \
        --values "$manifests/values.yaml" \
        --set central.podNetwork.allocateNodeCIDRs=true --set central.podNetwork.routes=true \
        --kube-version 1.36.0 \
        --show-only templates/fence-central.yaml
}

# All that the chart gives without any value: no cloud, addresses of L2Networks. On stdout.
render_bare_metal() {
    cat <<'HEADER'
# Rendered from deploy/chart/mooring by deploy/render.sh without any values: no cloud, addresses of
# L2Networks alone. Do not edit here: change the chart, then render again.
HEADER
    "$helm" template mooring "$chart" \
        --namespace mooring-system \
        --set createNamespace=true \
        --kube-version 1.36.0 \
        --include-crds | workloads_last
}

# Each file of deploy/manifests that is rendered: name, then what renders it.
rendered=(
    "mooring.yaml render"
    "bare-metal.yaml render_bare_metal"
    "phoenixnap-kube-vip.yaml render_phoenixnap kube-vip --show-only templates/fence-services.yaml"
    "phoenixnap-l2.yaml render_phoenixnap l2 --show-only templates/fence-services.yaml --show-only templates/fence-central.yaml"
    "endpoint-aware-members.yaml render_endpoints"
    "tls-secrets.yaml render_secrets"
    "metrics.yaml render_metrics"
    "pod-network.yaml render_pod_network"
)

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

# What the chart must give with every switch turned: a value that leads to no flag does nothing.
gives() {
    local words answer
    answer=$("$helm" template mooring "$chart" --values "$chart/ci/everything-values.yaml")
    for words in "$@"; do
        if [[ $answer != *"$words"* ]]; then
            say "the chart does not give: $words"
            return 1
        fi
    done
}

# What the chart must not give with these values.
omits() {
    local answer
    answer=$("$helm" template mooring "$chart" --values "$2")
    if [[ $answer == *"$1"* ]]; then
        say "the chart gives with $2: $1"
        return 1
    fi
}

check() {
    local values
    for values in "$manifests/values.yaml" "$chart"/ci/*-values.yaml; do
        "$helm" lint --quiet --strict "$chart" --values "$values"
        "$helm" template mooring "$chart" --values "$values" >/dev/null
    done
    refuses "cloudProvider is empty" --set cloudProvider=
    refuses "/cloudProvider" --set 'cloudProvider=none\,linode'
    refuses "/cloudProvider" --set cloudProvider=aws
    refuses "/cloudProvider" --set 'cloudProvider=linode\,linode'
    refuses "/cloudProvider" --set 'cloudProvider=linode\,'
    refuses "is Mooring's own" \
        --set 'nodeDaemon.annotationKeys={mooring.dev/corrected-by-central}'
    refuses "belongs to Kubernetes" \
        --set 'nodeDaemon.additionalLabelKeys={node-role.kubernetes.io/control-plane}'
    refuses "machines.configMap are both set" --set machines.file=x,machines.configMap=y
    refuses "and central reads one file" --set machines.configMap=y \
        --set 'cloudProvider=phoenixnap\,cloudlycke' --set phoenixnap.configSecret=x
    refuses "/central/loadBalancers/tlsSecretNamespaces" \
        --set 'central.loadBalancers.tlsSecretNamespaces={a/b}'
    refuses "/phoenixnap/loadBalancer" --set phoenixnap.loadBalancer=metallb://x
    refuses "set both" --set apiServer.host=192.0.2.1
    refuses "replica" --set central.replica=3
    gives --take-over-namespaces=edge,shop --livez-detail-networks=10.0.0.0/8,fd00::/8 \
        "in ['example.com/a', 'example.com/b']" --allow-unsigned-heartbeats --endpoint-aware-members --probe-bind-address \
        "kind: PodMonitor" "alert: MooringServiceWithoutAddress" "mooring-cluster.json" --metrics-secure-bind-address \
        --cluster-cidr=10.0.0.0/8 --allocate-node-cidrs --enable-route-controller \
        $'name: harbour-central-secrets\n  namespace: tills'
    refuses "central.podAntiAffinity is preferred" --set central.podAntiAffinity=preferred
    refuses "to which NetworkPolicies do not apply" --set central.networkPolicy.enabled=true
    refuses "both set" \
        --set central.podDisruptionBudget.enabled=true,central.podDisruptionBudget.minAvailable=1
    refuses "both empty" \
        --set central.podDisruptionBudget.enabled=true,central.podDisruptionBudget.maxUnavailable=
    refuses "give each its own" \
        --set central.serviceAccount.name=x,nodeDaemon.serviceAccount.name=x
    refuses "commonLabels: app.kubernetes.io/name is set by the chart" \
        --set 'commonLabels.app\.kubernetes\.io/name=x'
    refuses "nodeDaemon.podLabels: app.kubernetes.io/part-of is set by the chart" \
        --set 'nodeDaemon.podLabels.app\.kubernetes\.io/part-of=x'
    refuses "the public network is a VLAN" --set 'cloudProvider=phoenixnap,nodeDaemon.manageInterfaces=false' \
        --set phoenixnap.loadBalancer=l2://n
    refuses "/central/image/digest" --set central.image.digest=sha256:1
    refuses "certificate in memory" \
        --set metrics.podMonitor.enabled=true,metrics.podMonitor.tlsConfig.serverName=x
    omits mooring-central-secrets "$chart/ci/unfenced-values.yaml"
    omits mooring-central-secrets "$chart/ci/phoenixnap-values.yaml"
    local entry file how
    for entry in "${rendered[@]}"; do
        read -r file how <<<"$entry"
        # Its words are the command and its argument.
        # shellcheck disable=SC2086
        if ! diff -u "$manifests/$file" <($how); then
            say "deploy/manifests/$file is not what the chart gives; run deploy/render.sh"
            return 1
        fi
    done
    say "deploy/manifests is up to date"
}

provide_helm
# Writes each file below a folder.
write() {
    local entry file how
    for entry in "${rendered[@]}"; do
        read -r file how <<<"$entry"
        # shellcheck disable=SC2086
        $how >"$1/.$file"
        mv -f "$1/.$file" "$1/$file"
    done
}

case ${1:-} in
    --helm)
        echo "$helm"
        ;;
    --check)
        check
        ;;
    --release)
        chart=$2
        write "$3"
        ;;
    "")
        write "$manifests"
        say "wrote ${#rendered[@]} files of deploy/manifests"
        ;;
    *)
        say "unknown argument $1; it takes --check, --helm, --release, or nothing"
        exit 2
        ;;
esac
