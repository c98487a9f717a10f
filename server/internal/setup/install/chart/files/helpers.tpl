{{- define "cleat.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag }}{{ end }}
{{- end }}

{{- define "cleat.serviceAccount" -}}
{{ .Values.serviceAccount.server.name | default "velero" }}
{{- end }}

{{- /* The name of what an installation has outside of its namespace. */}}
{{- define "cleat.clusterName" -}}
{{ if eq .Release.Namespace "velero" }}velero{{ else }}velero-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- /* The Secret with the credentials; empty if there is none. */}}
{{- define "cleat.secretName" -}}
{{ if .Values.credentials.useSecret }}{{ .Values.credentials.existingSecret | default .Values.credentials.name | default "cloud-credentials" }}{{ end }}
{{- end }}

{{- /* Whether node agents have a service account of their own, with rights of their own. */}}
{{- define "cleat.nodeAgentRights" -}}
{{ if and .Values.rbac.create (not .Values.rbac.clusterAdministrator) }}true{{ end }}
{{- end }}

{{- define "cleat.nodeAgentAccount" -}}
{{ if include "cleat.nodeAgentRights" . }}node-agent{{ else }}{{ include "cleat.serviceAccount" . }}{{ end }}
{{- end }}

{{- define "cleat.nodeAgentClusterName" -}}
{{ if eq .Release.Namespace "velero" }}cleat-node-agent{{ else }}cleat-node-agent-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- /* The flags of the server, and of a node agent: those that are set under configuration. */}}
{{- define "cleat.flags" -}}
{{- include "cleat.flagsOf" (list . (list SERVER_FLAGS)) }}
{{- end }}

{{- define "cleat.nodeAgentFlags" -}}
{{- include "cleat.flagsOf" (list . (list AGENT_FLAGS)) }}
{{- if include "cleat.nodeAgentRights" . }}
- --volume-namespaces={{ join "," .Values.rbac.namespaces }}
{{- end }}
{{- end }}

{{- define "cleat.flagsOf" -}}
{{- $configuration := (first .).Values.configuration }}
{{- range last . }}
{{- $value := get $configuration (last .) }}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ end }}
{{- if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ $value = int64 $value }}{{ end }}{{ end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- {{ printf "--%s=%v" (first .) $value }}
{{- end }}
{{- end }}
{{- end }}
