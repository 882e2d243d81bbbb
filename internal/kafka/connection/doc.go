// Package connection is how the operators of users and of topics reach the brokers of their cluster.
package connection
