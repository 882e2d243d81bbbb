// Package check decides what "kubectl keyturn check" finds: which clusters are not ready, and which
// certificates have expired, are about to, or should have been renewed.
//
// It decides from what the status of a cluster shows and from the time it is handed. It must not know
// how a status is read, how a finding is printed, or which exit code a verdict has.
package check
