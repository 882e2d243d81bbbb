// Package api is the root of the resources that Keyturn serves. It holds nothing itself: the groups are
// kafka/v1, core/v1, access/v1alpha1, etcd/v1beta2 and keyturn/v1alpha1, and go generate here writes their generated methods, their apply configurations and
// the CustomResourceDefinitions of config/crd and of the Helm chart.
package api

//go:generate go run -C ../tools ./crdgen -C ..
