// Package picture decides how a run looks at a glance.
//
// It is pure: a time line goes in, an SVG comes out, the same for the same. Its
// fonts are for programs that draw: operators do without it.
package picture
