// Package mount names the directories that are mounted into the pod of a Kafka node, and
// reads them as what package stores takes them for.
package mount
