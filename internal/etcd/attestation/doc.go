// Package attestation decides whether a request in the annotations of a pod is known to be of that pod: while an
// admission policy, which the chart installs, lets only the pod itself write it.
//
// It reads nothing: what the API server shows of the policy is an argument.
package attestation
