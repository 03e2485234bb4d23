{{/* What the names of the objects begin with. Not those of the admission policies, which the daemon knows. */}}
{{- define "mooring.fullname" -}}
{{ .Values.fullnameOverride | default "mooring" }}
{{- end }}

{{/* The name of central's Deployment, and what the names of its other objects begin with. */}}
{{- define "mooring.central" -}}
{{ include "mooring.fullname" . }}-central
{{- end }}

{{/* The same of the node daemon. */}}
{{- define "mooring.node" -}}
{{ include "mooring.fullname" . }}-node
{{- end }}

{{/* Central's ServiceAccount. */}}
{{- define "mooring.centralAccount" -}}
{{ .Values.central.serviceAccount.name | default (include "mooring.central" .) }}
{{- end }}

{{/* The node daemon's ServiceAccount. */}}
{{- define "mooring.nodeAccount" -}}
{{ .Values.nodeDaemon.serviceAccount.name | default (include "mooring.node" .) }}
{{- end }}

{{/* Central as a user of the API server. */}}
{{- define "mooring.centralUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "mooring.centralAccount" . }}
{{- end }}

{{/* Every node daemon as a user of the API server. */}}
{{- define "mooring.nodeUser" -}}
{{- if eq (include "mooring.nodeAccount" .) (include "mooring.centralAccount" .) -}}
{{- fail "central.serviceAccount.name and nodeDaemon.serviceAccount.name are the same; the admission policies tell the programs apart by their ServiceAccounts, so give each its own" -}}
{{- end -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "mooring.nodeAccount" . }}
{{- end }}

{{/* The label that a program's Pods are selected by. `program`: -central or -node. */}}
{{- define "mooring.selector" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default "mooring" }}{{ .program }}
{{- end }}

{{/* The labels of every object. `program`: -central, -node, or nothing for what both need. */}}
{{- define "mooring.labels" -}}
{{ include "mooring.selector" . }}
app.kubernetes.io/part-of: mooring
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- with include "mooring.extraLabels" (dict "value" "commonLabels" "labels" .root.Values.commonLabels) }}
{{ . }}
{{- end }}
{{- end }}

{{/* Labels of the values `value`, none of them the chart's own. */}}
{{- define "mooring.extraLabels" -}}
{{- range $key, $_ := .labels -}}
{{- if has $key (list "app.kubernetes.io/name" "app.kubernetes.io/part-of" "app.kubernetes.io/version") -}}
{{- fail (printf "%s: %s is set by the chart; use another key (nameOverride changes app.kubernetes.io/name)" $.value $key) -}}
{{- end -}}
{{- end -}}
{{- with .labels -}}
{{ toYaml . }}
{{- end -}}
{{- end }}

{{/* The annotations of admission policies and their bindings, as part of their metadata. */}}
{{- define "mooring.policyAnnotations" -}}
{{- with .Values.policyAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* An address and a port as one: of IPv6, the address takes brackets. */}}
{{- define "mooring.socket" -}}
{{- if contains ":" .address -}}[{{ .address }}]{{- else -}}{{ .address }}{{- end -}}:{{ .port }}
{{- end }}

{{/* By which a Prometheus that goes by annotations finds /metrics at a port. */}}
{{- define "mooring.scrapeAnnotations" -}}
prometheus.io/scrape: "true"
prometheus.io/scheme: https
prometheus.io/port: {{ .port | quote }}
prometheus.io/path: /metrics
{{- end }}

{{/* On the host network, where the kubelet asks central how it is: a new Node has no address yet. */}}
{{- define "mooring.probeHost" -}}
{{- if has .Values.central.bindAddress (list "0.0.0.0" "::") -}}
127.0.0.1
{{- else -}}
{{ .Values.central.bindAddress }}
{{- end -}}
{{- end }}

{{/* The image of one of the programs. `image`: what its own values say; `name`: what `images` says. */}}
{{- define "mooring.image" -}}
{{ .image.repository | default .name }}:{{ .image.tag | default .root.Values.images.tag | default .root.Chart.AppVersion }}
{{- with .image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* Environment variables from whole Secrets and ConfigMaps. */}}
{{- define "mooring.centralEnvFrom" -}}
{{- with .Values.central.credentialsSecret }}
- secretRef: {name: {{ . }}}
{{- end }}
{{- with .Values.central.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Rules by which central's replicas keep away from each other. */}}
{{- define "mooring.antiAffinity" -}}
{{- $central := .Values.central -}}
{{- if and $central.hostNetwork (gt (int $central.replicas) 1) (ne $central.podAntiAffinity "required") -}}
{{- fail (printf "central.podAntiAffinity is %s, so that replicas may share a Node, but on the host network both would listen on port %v; set central.replicas to 1 or central.hostNetwork to false" $central.podAntiAffinity (int $central.securePort)) -}}
{{- end -}}
{{- $term := printf "topologyKey: kubernetes.io/hostname\nlabelSelector:\n  matchLabels:\n    %s" (include "mooring.selector" (dict "program" "-central" "root" .)) -}}
{{- if eq $central.podAntiAffinity "required" }}
# The replicas shall not fall together.
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - {{ $term | nindent 6 | trim }}
{{- else if eq $central.podAntiAffinity "preferred" }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        {{- $term | nindent 8 }}
{{- end }}
{{- end }}

{{/* Topology spread constraints of central. One without a selector is about its Pods. */}}
{{- define "mooring.topologySpread" -}}
{{- $selector := include "mooring.selector" (dict "program" "-central" "root" .) | fromYaml -}}
{{- range .Values.central.topologySpreadConstraints }}
{{- $constraint := deepCopy . }}
{{- if not (hasKey . "labelSelector") }}
{{- $_ := set $constraint "labelSelector" (dict "matchLabels" $selector) }}
{{- end }}
- {{ toYaml $constraint | nindent 2 | trim }}
{{- end }}
{{- end }}

{{/* What the daemon's container may do: its own values, and its capabilities. */}}
{{- define "mooring.nodeSecurityContext" -}}
{{- $capabilities := list "NET_RAW" -}}
{{- if .Values.nodeDaemon.manageInterfaces -}}
{{- $capabilities = prepend $capabilities "NET_ADMIN" -}}
{{- else if eq (include "mooring.phoenixnapMode" .) "l2" -}}
{{- fail "nodeDaemon.manageInterfaces is false, but phoenixnap.loadBalancer is l2://: the public network is a VLAN, whose interfaces the daemons make; set it true" -}}
{{- end -}}
{{- if .Values.nodeDaemon.realtimePriority -}}
{{- $capabilities = append $capabilities "SYS_NICE" -}}
{{- end -}}
{{- $context := dict "capabilities" (dict "drop" (list "ALL") "add" $capabilities) -}}
{{- toYaml (merge (deepCopy .Values.nodeDaemon.securityContext) $context) -}}
{{- end }}

{{/* The providers, separated by commas. */}}
{{- define "mooring.cloudProvider" -}}
{{ required "cloudProvider is empty; name the provider, or none where there is no cloud" .Values.cloudProvider }}
{{- end }}

{{/* "yes" with a cloud; nothing without. */}}
{{- define "mooring.hasCloud" -}}
{{- if ne .Values.cloudProvider "none" -}}yes{{- end -}}
{{- end }}

{{/* The name of the Lease by which one replica leads. */}}
{{- define "mooring.leaderLease" -}}
{{ .Values.central.leaderElection.name | default (ternary "cloud-controller-manager" "mooring-central" (eq (include "mooring.hasCloud" .) "yes")) }}
{{- end }}

{{/* The ConfigMap with the machines file; nothing where there is none. */}}
{{- define "mooring.machinesConfigMap" -}}
{{- if and .Values.machines.file .Values.machines.configMap -}}
{{- fail "machines.file and machines.configMap are both set; keep one of them" -}}
{{- end -}}
{{- if .Values.machines.file -}}
{{ include "mooring.fullname" . }}-machines
{{- else -}}
{{ .Values.machines.configMap }}
{{- end -}}
{{- end }}

{{/* "yes" with the provider phoenixnap; nothing without. */}}
{{- define "mooring.phoenixnap" -}}
{{- if has "phoenixnap" (splitList "," .Values.cloudProvider) -}}yes{{- end -}}
{{- end }}

{{/* "yes" with a provider whose load balancers present certificates from Secrets; nothing without. */}}
{{- define "mooring.presentsSecrets" -}}
{{- if has "linode" (splitList "," .Values.cloudProvider) -}}yes{{- end -}}
{{- end }}

{{/* By what PhoenixNAP's addresses are announced: kube-vip, l2, bgp, or nothing. */}}
{{- define "mooring.phoenixnapMode" -}}
{{- if include "mooring.phoenixnap" . -}}
{{- splitList ":" .Values.phoenixnap.loadBalancer | first -}}
{{- end -}}
{{- end }}

{{/* The Secret with PhoenixNAP's configuration; nothing where there is none. */}}
{{- define "mooring.phoenixnapSecret" -}}
{{- if and (include "mooring.phoenixnap" .) .Values.phoenixnap.configSecret -}}
{{- if include "mooring.machinesConfigMap" . -}}
{{- fail "phoenixnap.configSecret and a machines file are both set, and central reads one file; hand the keys of the Secret over as variables, in central.credentialsSecret and central.extraEnv" -}}
{{- end -}}
{{ .Values.phoenixnap.configSecret }}
{{- end -}}
{{- end }}

{{/* Environment variables that lead both programs to the API server. */}}
{{- define "mooring.apiServerEnv" -}}
{{- if .Values.apiServer.host }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ .Values.apiServer.host | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ required "apiServer.host is set, but apiServer.port is not; set both" .Values.apiServer.port | quote }}
{{- end }}
{{- end }}

{{/* A list of texts as CEL writes it. */}}
{{- define "mooring.celList" -}}
[{{ range $index, $text := . }}{{ if $index }}, {{ end }}'{{ $text }}'{{ end }}]
{{- end }}

{{/* Label keys that the node daemon may set and remove, none of them Kubernetes' own. */}}
{{- define "mooring.additionalLabelKeys" -}}
{{- range .Values.nodeDaemon.additionalLabelKeys -}}
{{- $domain := splitList "/" . | first -}}
{{- if and (contains "/" .) (regexMatch "(^|\\.)(kubernetes|k8s)\\.io$" $domain) -}}
{{- fail (printf "nodeDaemon.additionalLabelKeys: %s belongs to Kubernetes, and Mooring never sets such labels; use a key of your own" .) -}}
{{- end -}}
{{- end -}}
{{ include "mooring.celList" .Values.nodeDaemon.additionalLabelKeys }}
{{- end }}

{{/* Annotation keys that the node daemon may set and remove, none of the values' Mooring's own. */}}
{{- define "mooring.annotationKeys" -}}
{{- range .Values.nodeDaemon.annotationKeys -}}
{{- $domain := splitList "/" . | first -}}
{{- if and (contains "/" .) (regexMatch "(^|\\.)mooring\\.dev$" $domain) -}}
{{- fail (printf "nodeDaemon.annotationKeys: %s is Mooring's own, and the policy knows those already; use a key of your own" .) -}}
{{- end -}}
{{- end -}}
{{ include "mooring.celList" (concat (list "mooring.dev/owned-labels" "mooring.dev/left-to-central" "mooring.dev/kubelet-addresses") .Values.nodeDaemon.annotationKeys) }}
{{- end }}
