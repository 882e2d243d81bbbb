// Package mounttest tests a kubelet whose volumes a mount.Reader reads. A real kubelet and
// the stand-in must both pass it, because other tests run against the stand-in.
package mounttest
