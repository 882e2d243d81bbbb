package trust

import (
	"flag"
	"time"
)

var wide = flag.Bool("wide", false, "walk the worlds that take minutes, too")

// world is a cluster of two nodes with unrelated authorities, of which one is
// replaced, loading by reload; the changes make it the one that a walk is about.
func world(name string, begin budget, changes ...func(*rules)) rules {
	begin.replace = max(begin.replace, 1)
	w := rules{
		name: name, nodes: 2, begin: begin,
		keyOf:  [maxAnchors]int8{0, 1, 2},
		policy: Policy{Lead: 2 * time.Minute},
	}
	for _, change := range changes {
		change(&w)
	}
	return w
}

// crossSigned has every authority cross-signed by all before it, each by a cross
// certificate for the next, so that an application that knows only the first one is
// served throughout.
func crossSigned(w *rules) {
	w.cross = [maxAnchors]mask{1: 1, 2: 3}
	w.pinned = true
}

// renamed has each authority share its key with the one before it under another name:
// whichever of them is to issue is cross-signed by all the others.
func renamed(w *rules) {
	crossSigned(w)
	w.cross[0], w.cross[1] = 6, 5
}

func byRestarts(w *rules) { w.policy.Reload = RestartOnly }

// compromised distrusts A, so that applications which know nothing else are cut
// off on purpose.
func compromised(w *rules) {
	crossSigned(w)
	w.pinned, w.compromised = false, 1
}

func crossSignedByNobody(w *rules) { w.compromised = 1 }

// renewed makes B another certificate of A's key.
func renewed(w *rules) {
	w.keyOf[1] = 0
	w.pinned = true
}

func clientsCA(w *rules) { w.clients = true }

func unknownUsers(w *rules) {
	w.clients = true
	w.policy.Retirement = RetireExpired
}

func notReplaced(w *rules) { w.begin.replace = 0 }

func scaledUp(w *rules) { w.begin.join = 1 }

// keyLost leaves nobody who could sign with the key of A.
func keyLost(w *rules) { w.lost = 1 }

// besides makes liars claim an authority beside those that they run on.
func besides(w *rules) { w.extra = true }

func patient(w *rules) { w.patient = true }

func slowly(w *rules) { w.slow = true }

// issuedOutside leaves the keys to an issuer.
func issuedOutside(w *rules) {
	w.outside, w.lost = true, 7
	w.policy.Issuance = Offered
}

// rekeyed issuers have nothing but the next key.
func rekeyed(w *rules) { w.rekeyed = true }

// allListed has the owner name both authorities from the beginning.
func allListed(w *rules) {
	issuedOutside(w)
	w.begin.replace, w.listed = 0, true
}

func withCompanion(w *rules) { w.companions = 1 }

// worlds are all that are walked.
func worlds() []rules { return append(ownWorlds(), outsideWorlds()...) }

// outsideWorlds have an issuer that signs by any CA at any time.
func outsideWorlds() []rules {
	return []rules{
		world("issued outside", budget{offer: 2, crash: 1}, issuedOutside),
		world("issued outside, and the bundle is put back", budget{offer: 2, abort: 1}, issuedOutside),
		world("issued outside while scaling up", budget{offer: 2}, issuedOutside, scaledUp),
		world("issued outside, a node's Secret lost", budget{offer: 1, loseNode: 1}, issuedOutside),
		world("issued outside by the next CA alone, a node's Secret lost", budget{offer: 2, loseNode: 1}, issuedOutside, rekeyed),
		world("issued outside by the next CA alone, a node's Secret lost after a crash", budget{offer: 1, loseNode: 1, crash: 1}, issuedOutside, rekeyed),
		world("issued outside by the next CA alone while scaling up", budget{offer: 2}, issuedOutside, rekeyed, scaledUp),
		world("issued outside with a companion", budget{offer: 2}, issuedOutside, withCompanion),
		world("issued outside by either of two listed CAs", budget{offer: 3, crash: 1}, allListed),
		world("issued outside by either of two listed CAs while scaling up", budget{offer: 2}, allListed, scaledUp),
		world("issued outside by either of two listed CAs, a node's Secret lost", budget{offer: 2, loseNode: 1}, allListed),
		world("issued outside, ended in the middle", budget{offer: 1, expire: 1}, issuedOutside),
	}
}

// ownWorlds have the keys at hand. They are listed by size, so that a missing guard is found in the smallest.
func ownWorlds() []rules {
	accidents := budget{crash: 1, recreate: 1}
	out := []rules{
		world("clients CA with unknown users", budget{crash: 1, expire: 1}, unknownUsers),
		world("clients CA with known users", accidents, clientsCA),
		world("clients CA whose owner adds another and takes it away", budget{crash: 1, owner: 2}, unknownUsers, notReplaced),
		world("classic by restarts", accidents, byRestarts),
		world("classic by reload", accidents),
		world("cross-signed by restarts", accidents, crossSigned, byRestarts),
		world("compromised by restarts", budget{}, compromised, byRestarts),
		world("classic, aborted", budget{abort: 1}),
		world("classic, replaced during a replacement", budget{replace: 2}),
		world("trusted-certs lost", budget{lose: 1}, crossSigned, patient),
		world("trusted-certs edited by hand", budget{edit: 1}, crossSigned, patient),
		world("cross-signed with a companion", budget{crash: 1}, crossSigned, withCompanion),
		world("classic with a companion", accidents, withCompanion),
		world("cross-signed while scaling up", budget{crash: 1}, crossSigned, scaledUp),
		world("classic while scaling up", budget{crash: 1}, scaledUp),
		world("cross-signed, reload switched off", budget{off: 1}, crossSigned),
		world("classic, reload switched off", budget{off: 1}),
		world("cross-signed, aborted", budget{abort: 1}, crossSigned),
		world("cross-signed by reload", accidents, crossSigned),
		world("cross-signed by slow servers", budget{}, crossSigned, slowly),
		world("classic by slow servers, aborted", budget{abort: 1, crash: 1}, slowly),
		world("renewed under the same key", accidents, renewed),
		world("renewed with another name, aborted", budget{abort: 1}, renamed, patient),
		world("compromised", budget{}, compromised),
		world("compromised, and not cross-signed", budget{}, crossSignedByNobody),
		world("classic, ended in the middle", budget{expire: 1, crash: 1}),
		world("classic by restarts, ended in the middle", budget{expire: 1}, byRestarts),
		world("classic by a lost key, while scaling up", budget{crash: 1}, keyLost, scaledUp),
		world("cross-signed, a node's Secret lost", budget{loseNode: 1}, crossSigned, patient),
		world("classic by a lost key, a node's Secret lost", budget{loseNode: 1}, keyLost),
		world("classic by a lost key and restarts, a node's Secret lost", budget{loseNode: 1, crash: 1}, keyLost, byRestarts),
		world("cross-signed with a liar", budget{lie: 1}, crossSigned),
		world("classic with a liar", budget{lie: 1}),
		world("classic with a liar who tells half the truth", budget{lie: 1}, besides),
		world("classic with a pod that lost its labels", budget{hide: 1}),
	}
	if *wide {
		out = append(out, wideWorlds()...)
	}
	return out
}

// editedWhileCompromised is large, but shows soon that controllers must have turned
// before anybody starts without the old anchor.
func editedWhileCompromised() rules {
	return world("compromised, trusted-certs edited by hand", budget{edit: 1}, compromised)
}

// trials are the worlds in which a missing guard is looked for.
func trials() []rules { return append(ownWorlds(), editedWhileCompromised()) }

// wideWorlds have three nodes, or more that happens to them.
func wideWorlds() []rules {
	three := func(w *rules) { w.nodes = 3 }
	all := budget{crash: 2, recreate: 1, lose: 1}
	return []rules{
		world("classic by reload, three nodes", budget{crash: 1}, three),
		world("cross-signed by reload, three nodes", budget{}, crossSigned, three),
		world("cross-signed by reload, many accidents", all, crossSigned),
		world("classic by reload, many accidents", all),
		world("clients CA, replaced while its owner adds another and takes it away", budget{crash: 1, owner: 2, expire: 1}, unknownUsers),
		editedWhileCompromised(),
		world("compromised, with accidents", budget{crash: 1, recreate: 1}, compromised),
		world("cross-signed, replaced during a replacement", budget{replace: 2}, crossSigned),
		world("trusted-certs lost, to the end", budget{lose: 1}, crossSigned),
		world("trusted-certs edited, to the end", budget{edit: 1}, crossSigned),
		world("renewed with another name, aborted, to the end", budget{abort: 1}, renamed),
		world("renewed with another name twice and aborted", budget{replace: 2, abort: 1}, renamed, patient),
		world("replaced twice and aborted", budget{replace: 2, abort: 1}, crossSigned, patient),
	}
}
