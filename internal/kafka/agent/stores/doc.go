// Package stores turns what is mounted into what the server reads: it decides
// whether the mounted keys, leaves and anchors are the ones the publication
// names, and renders the PEM stores and the configuration from them.
//
// It is pure: directories come in as values, files go out as values. It does
// not know who mounted them, when, or what the server does with them, and it
// never chooses an anchor that the publication does not name.
package stores
