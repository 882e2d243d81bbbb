// Package registry serves images of the bed behind a password, for tests of private registries.
package registry
