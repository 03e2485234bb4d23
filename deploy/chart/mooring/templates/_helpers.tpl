{{/* The labels of every object. */}}
{{- define "mooring.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: mooring
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end }}

{{/* An address and a port as one: of IPv6, the address takes brackets. */}}
{{- define "mooring.socket" -}}
{{- if contains ":" .address -}}[{{ .address }}]{{- else -}}{{ .address }}{{- end -}}:{{ .port }}
{{- end }}

{{/* On the host network, where the kubelet asks central how it is: a new Node has no address yet. */}}
{{- define "mooring.probeHost" -}}
{{- if has .Values.central.bindAddress (list "0.0.0.0" "::") -}}
127.0.0.1
{{- else -}}
{{ .Values.central.bindAddress }}
{{- end -}}
{{- end }}

{{/* The image of one of the programs. */}}
{{- define "mooring.image" -}}
{{ .name }}:{{ .root.Values.images.tag | default .root.Chart.AppVersion }}
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
mooring-machines
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
