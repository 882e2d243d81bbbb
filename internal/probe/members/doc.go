// Package members reaches the members of an EtcdCluster from where a person is, and connects to
// them as an application does that reads the Secret of its EtcdAccess anew for each connection. It
// records what is seen of them, and what they report.
package members
