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
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
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
{{- if gt (int .replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  {{- include "keyturn.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
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
