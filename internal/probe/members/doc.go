// Package members reaches the members of an EtcdCluster from where a person is, and connects to
// them as an application does that reads the Secret of its EtcdAccess anew for each connection.
package members
