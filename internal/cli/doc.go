// Package cli holds the subcommands of the keyturn binary: their options, and
// the composition of the packages that do the work. Nothing imports it but
// main.
package cli
