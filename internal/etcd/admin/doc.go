// Package admin asks an etcd cluster for its members, and changes them. What to change, others decide.
package admin
