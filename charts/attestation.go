package charts

import _ "embed" // etcd-attestation.yaml

// EtcdAttestation is the admission policy that the chart installs for pods of etcd members, before its placeholders
// are filled in.
//
//go:embed keyturn/files/etcd-attestation.yaml
var EtcdAttestation string
