// Package cli holds the subcommands of keyturn and of its kubectl plugin: their options, and
// the composition of the packages that do the work. Nothing imports it but
// main.
package cli
