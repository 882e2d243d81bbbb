// Package tools pins the programs that build, check and describe Keyturn (see the tool directives in go.mod),
// in a module of their own so that the product's module graph stays small, and holds the small programs
// behind the Makefile: stages, generated, need and release, and crdgen and render behind go generate.
package tools
