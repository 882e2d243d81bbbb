// Package images packs programs into container images without a registry, a base image or a container engine, loads
// them into a running containerd, and writes archives that others bring to a registry.
//
// An image is a list of layers of files; what goes into a file's place is always the same for the same input: times
// are zero, names are sorted, owners are given. It must not know how the packed programs are built.
package images
