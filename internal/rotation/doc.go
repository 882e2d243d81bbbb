// Package rotation is what people see of a trust rotation: the record from which the operator decided, and
// the words for its state and blockers. The operator's conditions and the command line use the same words.
//
// It decides nothing: internal/trust does. It knows neither Kubernetes nor keys,
// and the time is an argument. What one kind of server calls its own is handed in: see
// Words.
package rotation
