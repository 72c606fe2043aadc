{{- define "andon.labels" -}}
app.kubernetes.io/name: andon
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "andon.hubUrl" -}}
{{- if .Values.hub.url }}{{ .Values.hub.url }}{{ else -}}
{{ if .Values.hub.tlsSecret }}https{{ else }}http{{ end }}://andon-hub.{{ .Release.Namespace }}.svc:26366
{{- end }}
{{- end }}
{{- define "andon.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
{{- end }}
