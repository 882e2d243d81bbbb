// Package mounttest plays the kubelet for tests: it gives a volume other content the way a
// kubelet does.
package mounttest
