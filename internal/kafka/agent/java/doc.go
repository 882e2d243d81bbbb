// Package java knows how Kafka's programs are started from a directory with the
// layout of the official image, without the scripts in its bin directory and
// without a shell.
//
// It does not run anything and knows no configuration but the JVM's.
package java
