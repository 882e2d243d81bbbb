{{- /* What the schema cannot refuse, or not with a sentence that says what to do. */}}
{{- define "keyturn.checks" -}}
{{- $values := .Values }}
{{- /* Selectors, network policies and other programs act by these labels. */}}
{{- $own := "^(app\\.kubernetes\\.io/(name|instance|component|part-of|managed-by|version)|helm\\.sh/chart|(.*\\.)?strimzi\\.io/.*|(.*\\.)?keyturn\\.dev/.*|servicebinding\\.io/controller|pod-security\\.kubernetes\\.io/.*)$" }}
{{- range $value := list "commonLabels" "podLabels" }}
{{- range $label, $_ := index $values $value }}
{{- if regexMatch $own $label }}
{{- fail (printf "%s must not contain %s, because the operators and the chart set this label themselves. Remove it from %s." $value $label $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $label, $_ := $values.podLabels }}
{{- if hasKey ($values.commonLabels | default dict) $label }}
{{- fail (printf "podLabels must not contain %s, because commonLabels has it and is for pods, too. Remove it from one of them." $label) }}
{{- end }}
{{- end }}
{{- end -}}
