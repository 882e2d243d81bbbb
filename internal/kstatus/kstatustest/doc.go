// Package kstatustest judges resources as the tools do that wait for them: by the library of Flux and Helm, and by health
// checks for Argo CD.
package kstatustest
