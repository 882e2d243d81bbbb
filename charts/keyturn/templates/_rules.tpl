{{/*
What the operator may do in every namespace that it watches. A rule is here because code needs it; its comment
says which. Nothing is listed with "*", and nothing outside of namespaces is touched.
*/}}
{{- define "keyturn.rules" -}}
# The resources that people describe their clusters with. They are the people's: nothing but status is written.
- apiGroups: [kafka.strimzi.io]
  resources: [kafkas, kafkanodepools]
  verbs: [get, list, watch]
# What the operator has to say about them.
- apiGroups: [kafka.strimzi.io]
  resources: [kafkas/status, kafkanodepools/status]
  verbs: [patch]
# Owner references that block the deletion of their owner need it, where the API server checks that
# (admission plugin OwnerReferencesPermissionEnforcement, on in OpenShift).
- apiGroups: [kafka.strimzi.io]
  resources: [kafkas/finalizers, kafkanodepools/finalizers]
  verbs: [update]
# The finalizers of users and topics whose Kafka is gone, which would keep a namespace from being deleted. Watched as metadata.
- apiGroups: [kafka.strimzi.io]
  resources: [kafkausers, kafkatopics]
  verbs: [get, list, watch, patch]
# A KafkaAccess without an access operator gets a status that says so. Watched as metadata.
- apiGroups: [access.strimzi.io, kafka.strimzi.io]
  resources: [kafkaaccesses]
  verbs: [get, list, watch]
# The same: the status alone is written.
- apiGroups: [access.strimzi.io, kafka.strimzi.io]
  resources: [kafkaaccesses/status]
  verbs: [patch]
# The pods of a node pool, described one by one. Patch also takes away an annotation that asked for a restart;
# delete takes away the set of a node pool that is gone.
- apiGroups: [core.strimzi.io]
  resources: [strimzipodsets]
  verbs: [get, list, watch, create, patch, delete]
# How many of the pods exist, are ready, and are current.
- apiGroups: [core.strimzi.io]
  resources: [strimzipodsets/status]
  verbs: [patch]
# As for the owners above: pods belong to their set.
- apiGroups: [core.strimzi.io]
  resources: [strimzipodsets/finalizers]
  verbs: [update]
# The nodes of Kafka: created when missing, annotated with what they are to load, deleted to restart them.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# Certificates and keys of authorities, nodes and the operator itself. Watched as metadata only; the content
# of those with the label of a cluster, and of those that a listener names, is read when it is needed. Delete
# takes away those of removed nodes.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
# The configuration of every node, and the record of the one pod that is being restarted. Delete takes away
# those of removed nodes.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# The addresses that clients start from, and the DNS names of the nodes. They go with their owner, the Kafka.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
# The identity of the nodes, which is bound to no role, and that of the operators beside them. Delete takes away the
# latter when it is not asked for any more.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
# The operators of users and topics beside the nodes, and what they may do.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
# Their role and the binding of it: the API server lets the operator grant nothing that it does not have itself.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
# What that role hands out and is not listed elsewhere: nobody can grant more than it has.
- apiGroups: [kafka.strimzi.io]
  resources: [kafkausers/status, kafkatopics/status]
  verbs: [patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, get, update]
# The leader election of these operators writes events of the older form.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# The data of the nodes. Patch grows a volume; delete takes away the claims of a removed node with
# deleteClaim: true.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# Keeps others, such as a drain, from restarting more than one node at a time. It goes with its owner.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
# Who may connect to the nodes. It goes with its owner; delete takes it away when policies are switched off.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Tells people what happened; patch counts repetitions.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
