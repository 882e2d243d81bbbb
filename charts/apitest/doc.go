// Package apitest holds the rights that the chart gives against a real API server, which
// KUBEBUILDER_ASSETS names; make api-test sets it. It holds tests only.
package apitest
