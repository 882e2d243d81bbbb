{{- /* What the names of all objects begin with. 50 characters leave room for what follows. */}}
{{- define "keyturn.name" -}}
{{- $name := .Values.nameOverride | default "keyturn" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" (.Release.Name | trunc (sub 49 (len $name) | int) | trimSuffix "-") $name }}
{{- end -}}
{{- end -}}

{{- /* A Lease for each release: of two that shared one, only one would ever act. */}}
{{- define "keyturn.lease" -}}
{{ include "keyturn.name" . }}-operator
{{- end -}}

{{- define "keyturn.image" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository is not set, and there is no published image. Push the image to a registry (docs/install.md), then set image.repository, for example to registry.example.com/keyturn." }}
{{- end }}
{{- .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{- /*
Labels of one operator: .root is the context, .component its name, .cluster the Kafka cluster of a user operator. Network
policies of clusters let pods in by app.kubernetes.io/name, so that no value changes it.
*/}}
{{- define "keyturn.selector" -}}
app.kubernetes.io/name: {{ ternary "keyturn" (printf "keyturn-%s" .component) (eq .component "operator") }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .cluster }}
strimzi.io/cluster: {{ . }}
{{- end }}
{{- end -}}

{{- define "keyturn.labels" -}}
{{ include "keyturn.selector" . }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: keyturn
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* What the metadata of an object has beside its name; .labels are further ones. */}}
{{- define "keyturn.metadata" -}}
labels:
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- include "keyturn.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The names of the pull Secrets, separated by commas. */}}
{{- define "keyturn.pullSecrets" -}}
{{- $names := list }}
{{- range .Values.imagePullSecrets }}
{{- $names = append $names .name }}
{{- end }}
{{- join "," $names }}
{{- end -}}
