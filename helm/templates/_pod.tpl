{{/* A release's pod template; context: dict "root" "release". */}}
{{- define "opsctl.podTemplate" -}}
{{- $pod := include "opsctl.pod" . | fromJson }}
{{- $npu := $pod.npu.chip }}
{{- $files := $pod.files }}
metadata:
  labels:
    {{- include "opsctl.pods" . | nindent 4 }}
    app.kubernetes.io/instance: {{ .root.Release.Name }}
    {{- if eq (.release.role | default "serving") "serving" }}
    opsctl/joins-{{ .release.name }}: "true"
    {{- with .release.base }}
    opsctl/joins-{{ . }}: "true"
    {{- end }}
    {{- end }}
    {{- if and $npu $pod.npu.volcano.enabled }}
    ring-controller.atlas: {{ include "opsctl.npu.ring" $pod }}
    {{- end }}
    {{- with $pod.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: service
    {{- if and $npu $pod.npu.volcano.enabled }}
    scheduling.volcano.sh/queue-name: {{ $pod.npu.volcano.queue | quote }}
    {{- end }}
    {{- with $pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "opsctl.account" .root }}
  # The service calls no API server.
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add (int64 $pod.drain.preStopSeconds) (int64 $pod.drain.timeoutSeconds) }}
  {{- with $pod.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  {{- with $pod.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- if and $npu $pod.npu.volcano.enabled }}
  schedulerName: volcano
  {{- end }}
  {{- if and $npu $pod.npu.runtimeClass }}
  runtimeClassName: {{ $pod.npu.runtimeClass | quote }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: {{ int64 $pod.security.runAsUser }}
    runAsGroup: {{ int64 $pod.security.runAsGroup }}
    fsGroup: {{ int64 $pod.security.fsGroup }}
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- $nodes := dict }}
  {{- if $npu }}
  {{- $nodes = mergeOverwrite $nodes (deepCopy ($pod.npu.nodeLabels | default dict)) }}
  {{- if $pod.npu.chipLabel }}{{ $_ := set $nodes "accelerator" (include "opsctl.npu.accelerator" $pod) }}{{ end }}
  {{- end }}
  {{- with mergeOverwrite $nodes (deepCopy ($pod.nodeSelector | default dict)) }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if or $npu $pod.tolerations }}
  tolerations:
    {{- if $npu }}
    # Nodes with accelerators are often kept free of other pods by a taint of this name.
    - {key: {{ include "opsctl.npu.resource" $pod }}, operator: Exists, effect: NoSchedule}
    {{- end }}
    {{- with $pod.tolerations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with $pod.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- $context := . }}
  {{- $spread := list (list "kubernetes.io/hostname" $pod.spread.hosts) (list "topology.kubernetes.io/zone" $pod.spread.zones) }}
  {{- if or (ne $pod.spread.hosts "off") (ne $pod.spread.zones "off") }}
  topologySpreadConstraints:
    {{- range $spread }}
    {{- if ne (index . 1) "off" }}
    - topologyKey: {{ index . 0 }}
      maxSkew: 1
      whenUnsatisfiable: {{ index . 1 }}
      labelSelector:
        matchLabels:
          {{- include "opsctl.pods" $context | nindent 10 }}
    {{- end }}
    {{- end }}
  {{- end }}
  containers:
    - name: service
      image: {{ .release.image | quote }}
      imagePullPolicy: {{ $pod.imagePullPolicy }}
      {{- with $pod.command }}
      command:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.args }}
      args:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: http, containerPort: {{ int64 $pod.ports.http }}, protocol: TCP}
        - {name: health, containerPort: {{ int64 $pod.ports.health }}, protocol: TCP}
      env:
        - {name: OPSCTL_RELEASE, value: {{ .release.name | quote }}}
        - name: OPSCTL_REPLICA
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- if or $pod.model.claim $pod.model.path }}
        - {name: MODEL_PATH, value: {{ $pod.model.path | quote }}}
        {{- end }}
        {{- if and $npu $pod.npu.vnpu }}
        # Static virtual NPUs are found by this mark.
        - {name: ASCEND_RUNTIME_OPTIONS, value: VIRTUAL}
        {{- end }}
        {{- if and $npu $pod.npu.volcano.enabled }}
        # Volcano writes its choice there. Without it the device plugin sets the variable; a value
        # given here would be the same cards for all replicas.
        - name: ASCEND_VISIBLE_DEVICES
          valueFrom: {fieldRef: {fieldPath: "metadata.annotations['{{ include "opsctl.npu.resource" $pod }}']"}}
        {{- end }}
        {{- range $name, $value := $pod.env }}
        - {name: {{ $name }}, value: {{ $value | toString | quote }}}
        {{- end }}
        {{- range $name, $source := $pod.secretEnv }}
        - name: {{ $name }}
          valueFrom: {secretKeyRef: {name: {{ $source.secret | quote }}, key: {{ $source.key | quote }}}}
        {{- end }}
      {{- $resources := deepCopy $pod.resources }}
      {{- if $npu }}
      {{- $resource := include "opsctl.npu.resource" $pod }}
      {{- $count := $pod.npu.count | int64 | toString }}
      {{- $resources = mergeOverwrite $resources (dict "requests" (dict $resource $count) "limits" (dict $resource $count)) }}
      {{- end }}
      resources:
        {{- toYaml $resources | nindent 8 }}
      # Slow to start is not broken: liveness begins when the start is over.
      startupProbe:
        httpGet: {path: {{ $pod.probes.readyPath | quote }}, port: health}
        {{- toYaml $pod.probes.startup | nindent 8 }}
      readinessProbe:
        httpGet: {path: {{ $pod.probes.readyPath | quote }}, port: health}
        {{- toYaml $pod.probes.readiness | nindent 8 }}
      livenessProbe:
        httpGet: {path: {{ $pod.probes.livePath | quote }}, port: health}
        {{- toYaml $pod.probes.liveness | nindent 8 }}
      {{- if gt (int $pod.drain.preStopSeconds) 0 }}
      lifecycle:
        preStop:
          sleep: {seconds: {{ int64 $pod.drain.preStopSeconds }}}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        {{- range $path, $size := $pod.writable }}
        - {name: {{ include "opsctl.volume" $path }}, mountPath: {{ $path | quote }}}
        {{- end }}
        {{- if $pod.model.claim }}
        - name: models
          mountPath: {{ $pod.model.mountPath | quote }}
          readOnly: true
          {{- with $pod.model.subPath }}
          subPath: {{ . | quote }}
          {{- end }}
        {{- end }}
        {{- if $files }}
        - {name: files, mountPath: {{ $pod.filesPath | quote }}, readOnly: true}
        {{- end }}
        {{- if and $npu (eq $pod.npu.driver "host") }}
        {{- range (include "opsctl.npu.driver" . | fromJsonArray) }}
        - {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
        {{- end }}
        {{- end }}
  volumes:
    {{- range $path, $size := $pod.writable }}
    - name: {{ include "opsctl.volume" $path }}
      emptyDir: {sizeLimit: {{ $size }}}
    {{- end }}
    {{- if $pod.model.claim }}
    - name: models
      persistentVolumeClaim: {claimName: {{ $pod.model.claim | quote }}, readOnly: true}
    {{- end }}
    {{- if $files }}
    - name: files
      configMap: {name: {{ include "opsctl.files" (dict "root" .root "release" .release "files" $files) }}}
    {{- end }}
    {{- if and $npu (eq $pod.npu.driver "host") }}
    {{- range (include "opsctl.npu.driver" . | fromJsonArray) }}
    - name: {{ .name }}
      hostPath: {path: {{ .path }}, type: {{ .type }}}
    {{- end }}
    {{- end }}
{{- end }}

{{/* Name of the volume of a folder that can be written. */}}
{{- define "opsctl.volume" -}}
writable{{ . | replace "/" "-" | replace "." "-" | replace "_" "-" | lower }}
{{- end }}

{{/* Name of a release's ConfigMap, which tells its content; context: dict "root" "release" "files". */}}
{{- define "opsctl.files" -}}
{{ include "opsctl.release" . }}-{{ .files | toJson | sha256sum | trunc 10 }}
{{- end }}
