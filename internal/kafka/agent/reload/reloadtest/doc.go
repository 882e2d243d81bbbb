// Package reloadtest is what every server that a reload.Reloader works on has to
// fulfil, the stand-in like a real Kafka: whoever tests reloads against the stand-in
// relies on it.
package reloadtest
