{{/* Owns the rules for partition windows of a fleet. The messages are those of `gapless windows check`. */}}

{{/* The partitions of a window as text: 0…5, or 6… without an upper limit. */}}
{{- define "gapless.windowText" -}}
{{- int64 .start }}…{{ if .count }}{{ sub (add (int64 .start) (int64 .count)) 1 }}{{ end }}
{{- end }}

{{/* The window of this cluster as JSON; {} if the list is empty or this cluster does not send. */}}
{{- define "gapless.ownWindow" -}}
{{- $own := dict -}}
{{- if .Values.roles.upstream.enabled -}}
{{- range .Values.windows -}}
{{- if eq .cluster $.Values.clusterName -}}
{{- $own = dict "start" (int64 .start) "count" (int64 .count) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $own }}
{{- end }}

{{/* Fails if the values are invalid. Each message says what is wrong, where, and what to do. */}}
{{- define "gapless.validate" -}}
{{- if not (or .Values.roles.downstream.enabled .Values.roles.upstream.enabled .Values.roles.archive.enabled .Values.roles.mirror.enabled) -}}
{{- fail "The values give this cluster no role; set roles.downstream.enabled=true where events are received, roles.upstream.enabled=true where they are sent, roles.archive.enabled=true where they are kept, roles.mirror.enabled=true where topics are copied between clusters, or several." -}}
{{- end -}}
{{- $clusters := list -}}
{{- $byCluster := dict -}}
{{- $ordered := list -}}
{{- range .Values.windows -}}
{{- if or (lt (float64 .start) 0.0) (lt (float64 .count) 0.0) (gt (subf (addf .start .count) 1) 2147483647.0) -}}
{{- fail (printf "The partition window of %s (start=%v, count=%v) is invalid: both must be 0 or more and the last partition at most 2147483647; correct it in the list windows." .cluster .start .count) -}}
{{- end -}}
{{- if hasKey $byCluster .cluster -}}
{{- fail (printf "The cluster %s has two partition windows in the list windows; give it only one." .cluster) -}}
{{- end -}}
{{- $clusters = append $clusters .cluster -}}
{{- $_ := set $byCluster .cluster . -}}
{{- $ordered = append $ordered (printf "%010d %s" (int64 .start) .cluster) -}}
{{- end -}}
{{- $previous := dict -}}
{{- range sortAlpha $ordered -}}
{{- $window := index $byCluster (substr 11 -1 .) -}}
{{- if $previous -}}
{{- if or (not $previous.count) (lt (float64 $window.start) (addf $previous.start $previous.count)) -}}
{{- fail (printf "The partition windows of %s (%s) and %s (%s) overlap, so their events would have the same IDs: give %s a start beyond the last partition of %s%s." $previous.cluster (include "gapless.windowText" $previous) $window.cluster (include "gapless.windowText" $window) $window.cluster $previous.cluster (ternary "" (printf ", and give %s a count" $previous.cluster) (gt (float64 $previous.count) 0.0))) -}}
{{- end -}}
{{- end -}}
{{- $previous = $window -}}
{{- end -}}
{{- if .Values.roles.upstream.enabled -}}
{{- if and .Values.windows (not .Values.clusterName) -}}
{{- fail (printf "The values install a sending cluster without a name; give it a clusterName, one of %s." (sortAlpha $clusters | join ", ")) -}}
{{- end -}}
{{- if and .Values.windows (not (hasKey $byCluster .Values.clusterName)) -}}
{{- fail (printf "The clusterName %s has no window; add one to the list windows, or give one of the names that it has: %s." .Values.clusterName (sortAlpha $clusters | join ", ")) -}}
{{- end -}}
{{- if and .Values.clusterName (not .Values.windows) -}}
{{- fail (printf "The clusterName %s has no window, because the list windows is empty; pass the list of the fleet, or leave clusterName empty when this is the only sending cluster." .Values.clusterName) -}}
{{- end -}}
{{- if eq .Values.sender.namespace.name .Release.Namespace -}}
{{- fail (printf "The namespace %s would hold both the release and the senders; senders need a namespace where pods may use the host network: set sender.namespace.name to another name." .Release.Namespace) -}}
{{- end -}}
{{- if and .Values.roles.downstream.enabled (has .Values.sender.namespace.name (include "gapless.scanNamespaces" . | fromJsonArray)) -}}
{{- fail (printf "The namespace %s would hold both scans and senders; senders need a separate namespace, where pods may use the host network: remove it from scan.namespaces." .Values.sender.namespace.name) -}}
{{- end -}}
{{- end -}}
{{- range include "gapless.archiveNamespaces" . | fromJsonArray -}}
{{- if eq . $.Release.Namespace -}}
{{- fail (printf "The namespace %s would hold both the release and archives; a Spark driver may create pods in its namespace, which could use the operator's service account there: remove it from archive.namespaces, or install the release in another namespace." .) -}}
{{- end -}}
{{- if has . (include "gapless.senderNamespaces" $ | fromJsonArray) -}}
{{- fail (printf "Archives already run as Jobs in the senders' namespace %s: remove it from archive.namespaces." .) -}}
{{- end -}}
{{- end -}}
{{- range include "gapless.mirrorNamespaces" . | fromJsonArray -}}
{{- if eq . $.Release.Namespace -}}
{{- fail (printf "The namespace %s would hold both the release and mirrors; a Spark driver may create pods in its namespace, which could use the operator's service account there: remove it from mirror.namespaces, or install the release in another namespace." .) -}}
{{- end -}}
{{- if has . (include "gapless.senderNamespaces" $ | fromJsonArray) -}}
{{- fail (printf "The namespace %s would hold both mirrors and senders; senders need a separate namespace, where pods may use the host network: remove it from mirror.namespaces." .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.roles.downstream.enabled (has .Release.Namespace (include "gapless.scanNamespaces" . | fromJsonArray)) -}}
{{- fail (printf "The namespace %s would hold both the release and scans; a Spark driver may create pods in its namespace, which could use the operator's service account there: remove it from scan.namespaces, or install the release in another namespace." .Release.Namespace) -}}
{{- end -}}
{{- end }}
