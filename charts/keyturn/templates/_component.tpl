{{- /*
The objects of one operator beside its rights. .root is the context, .component the name of the operator and of its
subcommand, .name that of its objects, .account its ServiceAccount as values, .args its flags, .env its environment,
.resources those of each replica.
*/}}
{{- define "keyturn.component" -}}
{{- $root := .root -}}
{{- $env := .env | default list }}
{{- /* Makes the garbage collector work harder before the kernel kills the process. */}}
{{- if dig "limits" "memory" "" .resources }}
{{- $env = append $env (dict "name" "GOMEMLIMIT" "valueFrom" (dict "resourceFieldRef" (dict "resource" "limits.memory"))) }}
{{- end }}
{{- $taken := list "STRIMZI_FEATURE_GATES" }}
{{- range $env }}
{{- $taken = append $taken .name }}
{{- end }}
{{- range $root.Values.extraEnv }}
{{- if has .name $taken }}
{{- fail (printf "extraEnv must not contain %s, because the chart sets it itself%s. Remove it from extraEnv." .name (eq .name "STRIMZI_FEATURE_GATES" | ternary " from featureGates" "")) }}
{{- end }}
{{- end }}
{{- $env = concat $env ($root.Values.extraEnv | default list) }}
{{- if .account.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .account.name | default .name }}
  namespace: {{ $root.Release.Namespace }}
  {{- include "keyturn.metadata" (merge (dict "annotations" (.account.annotations | default dict)) .) | nindent 2 }}
---
{{- end }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  {{- include "keyturn.metadata" . | nindent 2 }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      {{- include "keyturn.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "keyturn.labels" . | nindent 8 }}
        {{- with $root.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        {{- $annotations := dict "kubectl.kubernetes.io/default-container" .component }}
        {{- toYaml (merge (dict) ($root.Values.podAnnotations | default dict) $annotations) | nindent 8 }}
    spec:
      serviceAccountName: {{ .account.name | default .name }}
      {{- with $root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
      {{- toYaml . | nindent 6 }}
      {{- end }}
      securityContext:
        {{- toYaml $root.Values.podSecurityContext | nindent 8 }}
      containers:
      - name: {{ .component }}
        image: {{ include "keyturn.image" $root }}
        {{- with $root.Values.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}
        command: [/keyturn]
        args:
        - {{ .component }}
        {{- range .args }}
        - {{ . }}
        {{- end }}
        - --log-level={{ $root.Values.logLevel }}
        {{- with $env }}
        env:
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - name: metrics
          containerPort: 8080
        - name: health
          containerPort: 8081
        livenessProbe:
          httpGet:
            path: /healthz
            port: health
          periodSeconds: 20
          timeoutSeconds: 5
        readinessProbe:
          httpGet:
            path: /readyz
            port: health
          periodSeconds: 10
          timeoutSeconds: 5
        {{- with .resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
      {{- with $root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.tolerations }}
      tolerations:
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with $root.Values.topologySpreadConstraints }}
      topologySpreadConstraints:
      {{- $own := dict "labelSelector" (dict "matchLabels" (include "keyturn.selector" $ | fromYaml)) }}
      {{- range . }}
      {{- $counted := . }}
      {{- if not .labelSelector }}
      {{- $counted = merge (dict) . $own }}
      {{- end }}
      - {{- toYaml $counted | nindent 8 }}
      {{- end }}
      {{- end }}
      {{- if $root.Values.affinity }}
      affinity:
        {{- toYaml $root.Values.affinity | nindent 8 }}
      {{- else if gt (int .replicas) 1 }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm:
              topologyKey: kubernetes.io/hostname
              labelSelector:
                matchLabels:
                  {{- include "keyturn.selector" . | nindent 18 }}
      {{- end }}
{{- /* With one replica it would block every drain. */}}
{{- $budget := $root.Values.podDisruptionBudget }}
{{- if and $budget.enabled (gt (int .replicas) 1) }}
{{- if and (not (kindIs "string" $budget.minAvailable)) (ge (int $budget.minAvailable) (int .replicas)) }}
{{- fail (printf "podDisruptionBudget.minAvailable is %d, and %s has %d replicas, so that no pod of it could be evicted. Set a smaller minAvailable, or more replicas." (int $budget.minAvailable) .name (int .replicas)) }}
{{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  {{- include "keyturn.metadata" . | nindent 2 }}
spec:
  {{- if $budget.minAvailable }}
  minAvailable: {{ $budget.minAvailable }}
  {{- else }}
  maxUnavailable: {{ $budget.maxUnavailable }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "keyturn.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- /* What leader election needs; .lease is the name of the Lease. */}}
{{- define "keyturn.lease.rules" -}}
# The Lease says which replica acts. A new object cannot be restricted by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, update]
# Leader election writes an event of the older form when a replica becomes the leader.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* The operators that the release installs, by their names. */}}
{{- define "keyturn.components" -}}
{{- $components := list "operator" }}
{{- if .Values.userOperators }}{{ $components = append $components "user-operator" }}{{ end }}
{{- if .Values.topicOperators }}{{ $components = append $components "topic-operator" }}{{ end }}
{{- if .Values.accessOperator.enabled }}{{ $components = append $components "access-operator" }}{{ end }}
{{- if .Values.etcd.enabled }}{{ $components = append $components "etcd-operator" }}{{ end }}
{{- toYaml $components }}
{{- end -}}
