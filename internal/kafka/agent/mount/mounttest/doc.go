// Package mounttest is what every kubelet has to fulfil whose volumes a mount.Reader
// reads, the stand-in like a real one: whoever tests against the stand-in relies on it.
package mounttest
