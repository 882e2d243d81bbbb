// Package trust decides how a domain of TLS peers moves from one authority to
// another without a moment in which two of them cannot verify each other.
//
// # Law
//
// S (safety): at every instant, for every peer v that p may talk to, what p
// presents verifies under what v trusts. A peer may restart at any time and then
// loads what is mounted, or what its server has persisted, at that moment.
//
// L (liveness): if every peer that is asked to load something does or comes back,
// the domain reaches one authority that is trusted and used, and nothing else.
//
// # Shape
//
// Decide is one pure function from a snapshot to what the objects should hold
// next. The objects are written separately and in any order, and the operator may
// die between any two of them: each write that Decide asks for is safe alone.
//
//	                    guard that must be open
//	admit new        ─ mounted and application bundle hold old and new
//	switch leaves    ─ EveryPeerVerifiesNew, ApplicationsHadTime
//	turn operator    ─ EveryListenerTrustsNew (and the new anchor is TRUSTED_IN_USE_ALL)
//	narrow main      ─ OldUnusedMain
//	narrow late      ─ OldUnusedLate (restarts that have time wait here)
//	leave bundle     ─ NobodyTrustsOld
//	leave application bundle, last
//
// Nothing is withdrawn by a write that adds or switches.
//
// # Evidence
//
// A peer counts by everything it holds or may come to hold without being asked:
// what it has loaded, what is mounted, what is published, what its server has
// persisted. No evidence keeps every guard shut. Phases are not stored: they
// follow from the objects and the evidence. The states of the trusted-certs
// Secret are a report for people, and one lock: what is in PHASE_OUT may be
// withdrawn, nothing else.
//
// The package is pure: it knows neither Kubernetes nor servers nor keys, it compares
// fingerprints, and the time is part of the snapshot.
package trust
