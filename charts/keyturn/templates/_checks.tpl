{{- /* What the schema cannot refuse, or not with a sentence that says what to do. */}}
{{- define "keyturn.checks" -}}
{{- $values := .Values }}
{{- /* Selectors, network policies and other programs act by these labels. */}}
{{- $own := "^(app\\.kubernetes\\.io/(name|instance|component|part-of|managed-by|version)|helm\\.sh/chart|(.*\\.)?strimzi\\.io/.*|(.*\\.)?keyturn\\.dev/.*|servicebinding\\.io/controller|pod-security\\.kubernetes\\.io/.*)$" }}
{{- $labels := dict "commonLabels" $values.commonLabels "podLabels" $values.podLabels "serviceMonitor.labels" $values.serviceMonitor.labels "prometheusRule.labels" $values.prometheusRule.labels "dashboards.labels" $values.dashboards.labels }}
{{- range $value, $given := $labels }}
{{- range $label, $_ := $given }}
{{- if regexMatch $own $label }}
{{- fail (printf "%s must not contain %s, because the operators and the chart set this label themselves. Remove it from %s." $value $label $value) }}
{{- end }}
{{- if and (ne $value "commonLabels") (hasKey ($values.commonLabels | default dict) $label) }}
{{- fail (printf "%s must not contain %s, because commonLabels has it and applies here, too. Remove it from one of them." $value $label) }}
{{- end }}
{{- end }}
{{- end }}
{{- $variables := list }}
{{- range $values.extraEnv }}
{{- if has .name $variables }}
{{- fail (printf "extraEnv contains %s twice. Remove one of the entries." .name) }}
{{- end }}
{{- $variables = append $variables .name }}
{{- end }}
{{- /* An account that two operators shared would have the rights of both. */}}
{{- $name := include "keyturn.name" . }}
{{- $accounts := dict "serviceAccount" (list $name $values.serviceAccount) }}
{{- range $i, $_ := $values.userOperators }}
{{- $account := merge (dict "create" (dig "serviceAccount" "create" true .)) (.serviceAccount | default dict) }}
{{- $_ := set $accounts (printf "userOperators[%d].serviceAccount" $i) (list (printf "%s-users-%s-%s" $name .namespace .cluster) $account) }}
{{- end }}
{{- range $i, $_ := $values.topicOperators }}
{{- $account := merge (dict "create" (dig "serviceAccount" "create" true .)) (.serviceAccount | default dict) }}
{{- $_ := set $accounts (printf "topicOperators[%d].serviceAccount" $i) (list (printf "%s-topics-%s-%s" $name .namespace .cluster) $account) }}
{{- end }}
{{- if $values.accessOperator.enabled }}
{{- $_ := set $accounts "accessOperator.serviceAccount" (list (printf "%s-access-operator" $name) $values.accessOperator.serviceAccount) }}
{{- end }}
{{- if $values.etcd.enabled }}
{{- $_ := set $accounts "etcd.serviceAccount" (list (printf "%s-etcd-operator" $name) $values.etcd.serviceAccount) }}
{{- end }}
{{- $named := dict }}
{{- range $value, $pair := $accounts }}
{{- $account := last $pair }}
{{- if not (or $account.create $account.name) }}
{{- fail (printf "%s.name is not set, and %s.create is false. Set %s.name to a ServiceAccount that exists in the namespace of the release." $value $value $value) }}
{{- end }}
{{- $given := $account.name | default (first $pair) }}
{{- /* Two entries for one cluster are refused in a sentence of their own. */}}
{{- if and (hasKey $named $given) (or $account.name (not (or (hasPrefix "userOperators" $value) (hasPrefix "topicOperators" $value)))) }}
{{- fail (printf "%s.name and %s.name are both %s, and each operator would have the rights of both. Set two names." (get $named $given) $value $given) }}
{{- end }}
{{- $_ := set $named $given $value }}
{{- end }}
{{- end -}}
