// Package peer is the process of a companion as a peer of the nodes: it loads the certificate and the CAs that are
// published to it, without a restart, and proves to the cluster operator what it has loaded.
package peer
