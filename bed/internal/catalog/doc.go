// Package catalog lists the images of the bed: what each is called, what lies where in it and what runs.
//
// It knows the layouts that the official images have, because programs are configured for them; it must not know how
// an archive is written.
package catalog
