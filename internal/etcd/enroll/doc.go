// Package enroll decides what becomes of a certificate request that a pod has put into its annotations. It takes
// nothing from the request but the public key: identity, names, usages and lifetime come from what the operator knows
// of the pod.
//
// It reads nothing, and the time is an argument.
package enroll
