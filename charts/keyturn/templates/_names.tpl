{{- define "keyturn.name" -}}
{{- if contains "keyturn" .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-keyturn" (.Release.Name | trunc 42 | trimSuffix "-") }}
{{- end -}}
{{- end -}}

{{- /* A Lease for each release: of two that shared one, only one would ever act. */}}
{{- define "keyturn.lease" -}}
{{ include "keyturn.name" . }}-operator
{{- end -}}

{{- define "keyturn.selector" -}}
app.kubernetes.io/name: keyturn
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "keyturn.labels" -}}
{{ include "keyturn.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: keyturn
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "keyturn.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* Labels of a process beside the operator: .root is the context, .component its name. */}}
{{- define "keyturn.component.selector" -}}
app.kubernetes.io/name: keyturn-{{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .cluster }}
strimzi.io/cluster: {{ . }}
{{- end }}
{{- end -}}

{{- define "keyturn.component.labels" -}}
{{ include "keyturn.component.selector" . }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: keyturn
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}
