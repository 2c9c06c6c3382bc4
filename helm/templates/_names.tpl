{{/* The service's name. */}}
{{- define "opsctl.service" -}}
{{ .Values.service | default .Release.Name }}
{{- end }}

{{/* Labels of every object. Nothing here changes with the chart's version, as pods carry them too. */}}
{{- define "opsctl.labels" -}}
app.kubernetes.io/name: {{ include "opsctl.service" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "opsctl.account" -}}
{{ .Values.serviceAccount.name | default (include "opsctl.service" .) }}
{{- end }}

{{/* Name of a release's objects; context: dict "root" "release". */}}
{{- define "opsctl.release" -}}
{{ include "opsctl.service" .root }}-{{ .release.name }}
{{- if eq (.release.role | default "serving") "baseline" }}-baseline{{ end }}
{{- end }}

{{/* What tells the pods of a release from all others. */}}
{{- define "opsctl.pods" -}}
app.kubernetes.io/name: {{ include "opsctl.service" .root }}
opsctl/release: {{ .release.name }}
opsctl/role: {{ .release.role | default "serving" }}
{{- end }}

{{/*
A release's pod settings as JSON: its own over those of all. Where people choose the keys (env, files,
labels, …), a release's own map takes the place of the other whole, so that later additions to the
values of all don't change the pods of a release that was made before.
*/}}
{{- define "opsctl.pod" -}}
{{ include "opsctl.over" (dict "base" (deepCopy .root.Values.pod) "over" (.release.pod | default dict)) }}
{{- end }}

{{- define "opsctl.over" -}}
{{- $base := .base }}
{{- $free := list "env" "secretEnv" "files" "resources" "nodeSelector" "nodeLabels" "writable" "labels" "annotations" "affinity" }}
{{- range $key, $value := .over }}
{{- if and (kindIs "map" $value) (kindIs "map" (get $base $key)) (not (has $key $free)) }}
{{- $_ := set $base $key (include "opsctl.over" (dict "base" (get $base $key) "over" $value) | fromJson) }}
{{- else }}
{{- $_ := set $base $key $value }}
{{- end }}
{{- end }}
{{- $base | toJson }}
{{- end }}

{{/* route or selector. */}}
{{- define "opsctl.mode" -}}
{{- if ne .Values.traffic.mode "auto" -}}
{{ .Values.traffic.mode }}
{{- else if .Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1/HTTPRoute" -}}
route
{{- else -}}
selector
{{- end }}
{{- end }}

{{/*
Labels that the front Service selects. Two releases share it where one was made to follow the other;
neither a candidate that is not proved nor an old release that is kept warm is in it by accident.
*/}}
{{- define "opsctl.front" -}}
{{- $weighted := list }}
{{- range .Values.releases }}
{{- if gt (int (.weight | default 0)) 0 }}{{ $weighted = append $weighted . }}{{ end }}
{{- end }}
app.kubernetes.io/name: {{ include "opsctl.service" . }}
{{- if eq (len $weighted) 0 }}
opsctl/release: none
{{- else if eq (include "opsctl.mode" .) "route" }}
{{- $most := first $weighted }}
{{- range $weighted }}{{ if gt (int .weight) (int $most.weight) }}{{ $most = . }}{{ end }}{{ end }}
opsctl/release: {{ $most.name }}
opsctl/role: serving
{{- else if eq (len $weighted) 1 }}
opsctl/release: {{ (first $weighted).name }}
opsctl/role: serving
{{- else if gt (len $weighted) 2 }}
{{- fail "traffic.mode selector can share traffic between two releases, not more" }}
{{- else }}
{{- $a := first $weighted }}
{{- $b := last $weighted }}
{{- if eq ($b.base | default "") $a.name }}
opsctl/joins-{{ $a.name }}: "true"
{{- else if eq ($a.base | default "") $b.name }}
opsctl/joins-{{ $b.name }}: "true"
{{- else }}
{{- fail (printf "releases %s and %s can't share the Service: neither has the other as its base" $a.name $b.name) }}
{{- end }}
{{- end }}
{{- end }}
