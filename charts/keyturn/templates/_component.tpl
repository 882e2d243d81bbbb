{{- /*
The Deployment and the ServiceAccount of a process beside the operator. .root is the context, .component the name of the
process and of its subcommand, .name that of its objects, .args its flags, .resources what it takes.
*/}}
{{- define "keyturn.component" -}}
{{- $root := .root -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "keyturn.component.labels" . | nindent 4 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "keyturn.component.labels" . | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      {{- include "keyturn.component.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "keyturn.component.labels" . | nindent 8 }}
      {{- with $root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      {{- with $root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
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
        {{- if dig "limits" "memory" "" .resources }}
        env:
        # Makes the garbage collector work harder before the kernel ends the process.
        - name: GOMEMLIMIT
          valueFrom:
            resourceFieldRef:
              resource: limits.memory
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
