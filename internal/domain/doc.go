// Package domain decides about one CA together with all who trust it: what becomes of the
// CA, what each member is to trust, and who signs for it. A kind of server whose members
// have several CAs has a domain for each.
//
// It reads and writes nothing, makes no key, and the time is an argument. What is decided
// is written in the order of Secrets, and decided again from what is written.
package domain
