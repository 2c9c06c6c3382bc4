{{/* The extended resource of a pod's NPUs; context: the pod's settings. */}}
{{- define "opsctl.npu.resource" -}}
{{- $names := dict "910" "Ascend910" "910b" "Ascend910" "910c" "Ascend910" "310p" "Ascend310P" "310" "Ascend310" "950" "npu" -}}
{{- if .npu.resource -}}
{{ .npu.resource }}
{{- else -}}
huawei.com/{{ get $names .npu.chip }}{{ if .npu.vnpu }}-{{ .npu.vnpu }}{{ end }}
{{- end }}
{{- end }}

{{/* The value of the label `accelerator` that the device plugin writes. */}}
{{- define "opsctl.npu.accelerator" -}}
{{ get (dict "910" "huawei-Ascend910" "910b" "huawei-Ascend910" "910c" "huawei-Ascend910" "310p" "huawei-Ascend310P" "310" "huawei-Ascend310" "950" "huawei-npu") .npu.chip }}
{{- end }}

{{/* The label that Ascend's scheduler plug-in for Volcano asks for. */}}
{{- define "opsctl.npu.ring" -}}
{{ get (dict "910" "ascend-910" "910b" "ascend-910b" "910c" "ascend-910b" "310p" "ascend-310P" "310" "ascend-310" "950" "ascend-npu") .npu.chip }}
{{- end }}

{{/* What the Ascend runtime would mount of the driver, as JSON: name, path on both sides, type. */}}
{{- define "opsctl.npu.driver" -}}
[{"name": "driver", "path": "/usr/local/Ascend/driver", "type": "Directory"},
 {"name": "dcmi", "path": "/usr/local/dcmi", "type": "Directory"},
 {"name": "npu-smi", "path": "/usr/local/bin/npu-smi", "type": "File"},
 {"name": "install-info", "path": "/etc/ascend_install.info", "type": "File"}]
{{- end }}

{{/* The level of pod security that a release needs of its namespace. */}}
{{- define "opsctl.level" -}}
{{ if and .npu.chip (eq .npu.driver "host") }}privileged{{ else }}restricted{{ end }}
{{- end }}
