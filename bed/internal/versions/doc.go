// Package versions pins every version that the bed builds or packs, in one place.
//
// It knows no file, no network and no build; whoever changes a version here runs `go generate ./...` in the bed's
// module, which renders the go.mod files of the nested modules from it.
package versions

//go:generate go run -C ../.. ./internal/pin
