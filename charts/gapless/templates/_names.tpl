{{/* Owns names, labels, images and namespaces; must not know what they are used for. */}}

{{- define "gapless.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "gapless.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{- $name := include "gapless.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gapless.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gapless.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gapless.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: gapless
{{ include "gapless.selectorLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels and annotations of an object: dict "context" $ "labels" {additional} "annotations" {additional}. */}}
{{- define "gapless.head" -}}
labels:
  {{- include "gapless.labels" .context | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (default (dict) .annotations) .context.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* An image by name: dict "context" $ "image" "operator". */}}
{{- define "gapless.image" -}}
{{- $image := index .context.Values.images .image -}}
{{- $registry := .context.Values.image.registry | trimSuffix "/" -}}
{{- $repository := ternary (printf "%s/%s" $registry $image.repository) $image.repository (ne $registry "") -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest }}
{{- else -}}
{{- printf "%s:%s" $repository (default .context.Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* Whether the cluster is OpenShift: true or false. */}}
{{- define "gapless.openshift" -}}
{{- if kindIs "bool" .Values.openshift.enabled -}}
{{- .Values.openshift.enabled }}
{{- else -}}
{{- .Capabilities.APIVersions.Has "security.openshift.io/v1" }}
{{- end }}
{{- end }}

{{- define "gapless.operatorAccount" -}}
{{- default (ternary (printf "%s-operator" (include "gapless.fullname" .)) "default" .Values.operator.serviceAccount.create) .Values.operator.serviceAccount.name }}
{{- end }}

{{/* The PriorityClass of sender pods; empty for the cluster's default. */}}
{{- define "gapless.senderPriorityClass" -}}
{{- default (ternary (printf "%s-sender" (include "gapless.fullname" .)) "" .Values.sender.priorityClass.create) .Values.sender.priorityClass.name }}
{{- end }}

{{/* The namespaces with GapScans, as a JSON list, without the namespace of the release: see gapless.validate. */}}
{{- define "gapless.scanNamespaces" -}}
{{- if .Values.roles.downstream.enabled -}}
{{- default (list "gapless-scan") .Values.scan.namespaces | uniq | toJson }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{/* The namespaces with Archives and Restores, as a JSON list, without those of the release and the senders: see gapless.validate. */}}
{{- define "gapless.archiveNamespaces" -}}
{{- if .Values.roles.archive.enabled -}}
{{- default (list "gapless-archive") .Values.archive.namespaces | uniq | toJson }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{/* The namespaces with Mirrors, as a JSON list, without those of the release and the senders: see gapless.validate. */}}
{{- define "gapless.mirrorNamespaces" -}}
{{- if .Values.roles.mirror.enabled -}}
{{- default (list "gapless-mirror") .Values.mirror.namespaces | uniq | toJson }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{/* The namespaces in which archives run only as Jobs, which is the senders' namespace, as a JSON list. */}}
{{- define "gapless.jobsOnlyNamespaces" -}}
{{- if .Values.roles.archive.enabled -}}
{{- include "gapless.senderNamespaces" . }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{/* The namespaces in which Spark drivers may create executors, as a JSON list. */}}
{{- define "gapless.sparkNamespaces" -}}
{{- concat (include "gapless.scanNamespaces" . | fromJsonArray) (include "gapless.archiveNamespaces" . | fromJsonArray) (include "gapless.mirrorNamespaces" . | fromJsonArray) | uniq | toJson }}
{{- end }}

{{/* The namespaces of senders, as a JSON list. */}}
{{- define "gapless.senderNamespaces" -}}
{{- if .Values.roles.upstream.enabled -}}
{{- list .Values.sender.namespace.name | toJson }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{/* The allowed images of sender pods, as a JSON list. */}}
{{- define "gapless.senderImages" -}}
{{- prepend .Values.sender.allowedImages (include "gapless.image" (dict "context" $ "image" "sender")) | uniq | toJson }}
{{- end }}

{{/* The allowed images of pods with Spark, as a JSON list. */}}
{{- define "gapless.scanImages" -}}
{{- prepend .Values.scan.allowedImages (include "gapless.image" (dict "context" $ "image" "spark")) | uniq | toJson }}
{{- end }}

{{/* The allowed service accounts of Spark drivers, as a JSON list. */}}
{{- define "gapless.scanAccounts" -}}
{{- prepend .Values.scan.allowedServiceAccounts .Values.scan.serviceAccount.name | uniq | toJson }}
{{- end }}

{{/* CEL: whether the request is from the operator, a Kubernetes controller, or the platform team (users that may update Diodes). */}}
{{- define "gapless.isTrusted" -}}
request.userInfo.username in ['system:serviceaccount:{{ .Release.Namespace }}:{{ include "gapless.operatorAccount" . }}', 'system:kube-controller-manager'] ||
request.userInfo.username.startsWith('system:serviceaccount:kube-system:') ||
authorizer.group('gapless.dev').resource('diodes').namespace(request.namespace).check('update').allowed()
{{- end }}

{{/* All namespaces that the operator watches, as a JSON list. */}}
{{- define "gapless.watchedNamespaces" -}}
{{- concat (include "gapless.sparkNamespaces" . | fromJsonArray) (include "gapless.senderNamespaces" . | fromJsonArray) | uniq | sortAlpha | toJson }}
{{- end }}

{{/* The kinds that the operator reconciles in each namespace: a JSON object of lists. */}}
{{- define "gapless.servedKinds" -}}
{{- $served := dict }}
{{- $senders := include "gapless.senderNamespaces" . | fromJsonArray }}
{{- $archives := concat (include "gapless.archiveNamespaces" . | fromJsonArray) (include "gapless.jobsOnlyNamespaces" . | fromJsonArray) }}
{{- $scans := include "gapless.scanNamespaces" . | fromJsonArray }}
{{- $mirrors := include "gapless.mirrorNamespaces" . | fromJsonArray }}
{{- range $kinds, $namespaces := dict "archives restores" $archives "diodes resends" $senders "gapscans" $scans "mirrors" $mirrors }}
{{- range $namespaces }}
{{- $_ := set $served . (concat (default (list) (get $served .)) (splitList " " $kinds)) }}
{{- end }}
{{- end }}
{{- $served | toJson }}
{{- end }}
