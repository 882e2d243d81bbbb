// Package scenarios is what Keyturn does on a real Kubernetes with a real Kafka,
// told as scenarios "area/what-happens": make e2e RUN='^cluster/'.
//
// Every change is watched by real clients, and a scenario passes only if they saw
// nothing fail. Each writes out/e2e/<area>/<what-happens>/report.json with a
// picture of what nodes and clients saw, and diagnostics if it fails.
package scenarios
