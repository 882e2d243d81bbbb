// Package publication decides what each member is told to trust and to present, and what a
// member that has loaded something else is to be restarted for. It holds both sides of that
// talk: what the operator publishes, and what the member's agent reports.
//
// It compares a wish (Publication) with evidence (Report), never with annotations. It knows
// no Secrets, no pods and no clock.
package publication
