package reload

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// trial finds out by handshakes what a listener trusts, where the subjects that it
// names leave that open.
type trial struct {
	listener publication.Role
	// named are the subjects.
	named [][]byte
	// held are the sets of anchors that the listener may have loaded. An empty one
	// among them stands for anything.
	held [][]*x509.Certificate
	now  time.Time
	// offer completes a request with a leaf that only the anchor's key verifies.
	offer    func(anchor *x509.Certificate) verdict
	verdicts map[pki.KeyID]verdict
}

// verdict is what a listener said to a leaf.
type verdict struct {
	accepted bool
	// unknown is why the verdict is unknown, nil when it is known.
	unknown error
}

// prove says why it is not proven that the listener trusts the anchors, and none of
// those that it may have loaded besides; nil when it is. The names have to be those
// of the anchors.
func (t *trial) prove(anchors []*x509.Certificate) error {
	for _, anchor := range contested(append(slices.Clone(t.held), anchors)) {
		if !t.matters(anchor) {
			continue
		}
		name, wanted, said := pki.FingerprintOf(anchor), has(anchors, anchor), t.verdict(anchor)
		switch {
		case said.unknown != nil:
			return said.unknown
		case wanted && !said.accepted:
			return unproven("%s refuses a leaf of the anchor %s", t.listener, name)
		case !wanted && said.accepted:
			return unproven("%s still accepts a leaf of the anchor %s", t.listener, name)
		}
	}
	return nil
}

// matters reports whether a leaf has to show if the anchor is loaded. An anchor whose
// subject is not named is not loaded, and an expired one has no valid leaf.
func (t *trial) matters(anchor *x509.Certificate) bool {
	return !t.now.After(anchor.NotAfter) &&
		slices.ContainsFunc(t.named, func(subject []byte) bool { return bytes.Equal(subject, anchor.RawSubject) })
}

func (t *trial) verdict(anchor *x509.Certificate) verdict {
	key := pki.KeyIDOf(anchor)
	said, known := t.verdicts[key]
	if !known {
		said = t.offer(anchor)
		t.verdicts[key] = said
	}
	return said
}

// contested are the anchors of which subjects cannot tell whether they are loaded:
// those that one of the sets lacks, while another anchor has their subject and
// another key. Of several with one key the first stands for all.
func contested(sets [][]*x509.Certificate) []*x509.Certificate {
	var list []*x509.Certificate
	all := slices.Concat(sets...)
	for _, anchor := range all {
		rivaled := slices.ContainsFunc(all, func(other *x509.Certificate) bool { return pki.Namesakes(other, anchor) })
		everywhere := !slices.ContainsFunc(sets, func(set []*x509.Certificate) bool { return !has(set, anchor) })
		if rivaled && !everywhere && !has(list, anchor) {
			list = append(list, anchor)
		}
	}
	return list
}

// has reports whether one of the anchors has the key.
func has(anchors []*x509.Certificate, anchor *x509.Certificate) bool {
	return slices.ContainsFunc(anchors, func(a *x509.Certificate) bool { return pki.KeyIDOf(a) == pki.KeyIDOf(anchor) })
}

// try begins a trial of a listener that was seen. The listener may have loaded anything if
// this reloader has not written its file, or if the named subjects are not the file's.
func (r *Reloader) try(ctx context.Context, listener publication.Role, seen local.Seen, settings map[string]local.Setting) *trial {
	held := slices.Clone(r.held[listener])
	if current, ours := r.current(listener, settings); !ours || !accepts(seen.Authorities, current) {
		held = append(held, nil, r.files.named(seen.Authorities))
	}
	return &trial{
		listener: listener, named: seen.Authorities, held: held, now: r.Clock.Now(),
		offer:    func(anchor *x509.Certificate) verdict { return r.offer(ctx, listener, anchor) },
		verdicts: map[pki.KeyID]verdict{},
	}
}

// offer completes a request with a leaf that only the anchor's key verifies: alone,
// since with a cross certificate another anchor might do so.
func (r *Reloader) offer(ctx context.Context, listener publication.Role, anchor *x509.Certificate) verdict {
	i := slices.IndexFunc(r.leaves, func(identity stores.Identity) bool { return r.verifies(anchor, identity) })
	if i < 0 {
		return verdict{unknown: unproven("no leaf of the anchor %s is at hand, and %s may trust another one of its name: only a start shows what it has loaded",
			pki.FingerprintOf(anchor), listener)}
	}
	leaf := stores.Identity{Chain: r.leaves[i].Chain[:1], Key: r.leaves[i].Key}
	seen, err := r.Server.Look(ctx, listener, server.Certificate(leaf))
	if err == nil {
		err = seen.Refused
	}
	if _, refused := errors.AsType[*mtls.RefusedError](err); refused {
		return verdict{}
	}
	return verdict{accepted: err == nil, unknown: err}
}

func (r *Reloader) verifies(anchor *x509.Certificate, identity stores.Identity) bool {
	return pki.Verify(identity.Chain[:1], []*x509.Certificate{anchor}, r.Clock.Now(), pki.ClientAuth) == nil
}

// collect keeps, of the leaves that are mounted and those that were, one of each
// anchor that is published or may be loaded: a leaf of an anchor that is withdrawn
// shows that it is gone.
func (r *Reloader) collect(mounted stores.Matched) {
	leaves := slices.Concat(mounted.Proofs, []stores.Identity{mounted.Node}, r.leaves)
	var anchors []*x509.Certificate
	for _, l := range slices.Concat(r.started, mounted.Listeners) {
		anchors = slices.Concat(anchors, l.Trusts, l.Starts)
		for _, set := range r.held[l.Name] {
			anchors = append(anchors, set...)
		}
	}
	r.leaves = nil
	for i, anchor := range anchors {
		if has(anchors[:i], anchor) {
			continue
		}
		if first := slices.IndexFunc(leaves, func(identity stores.Identity) bool { return r.verifies(anchor, identity) }); first >= 0 {
			r.leaves = append(r.leaves, leaves[first])
		}
	}
}

// mayHold notes that a listener may have loaded one of the sets, too.
func (r *Reloader) mayHold(listener publication.Role, sets ...[]*x509.Certificate) {
	for _, set := range sets {
		if !slices.ContainsFunc(r.held[listener], func(known []*x509.Certificate) bool { return sameCertificates(known, set) }) {
			r.held[listener] = append(r.held[listener], set)
		}
	}
}

// holds notes that it is proven what a listener has loaded, if it is.
func (r *Reloader) holds(listener publication.Role) {
	if trusts := r.states[listener].Trusts; len(trusts) > 0 {
		r.held[listener] = [][]*x509.Certificate{trusts}
	}
}

// current is the content of the file that a listener's trust store is loaded from;
// false when this reloader has not written it.
func (r *Reloader) current(listener publication.Role, settings map[string]local.Setting) ([]*x509.Certificate, bool) {
	current, ours := r.files[settings[stores.TrustStore().LocationSetting(listener)].Effective]
	return current, ours
}

// offered are the sets in the files that a listener's trust store can be loaded from.
func (r *Reloader) offered(l stores.Listener) [][]*x509.Certificate {
	kind, slots := stores.TrustStore(), stores.Slots()
	sets := make([][]*x509.Certificate, 0, 1+len(slots))
	sets = append(sets, r.files[path.Join(r.Directory, l.File(kind))])
	for _, slot := range slots {
		sets = append(sets, r.files[path.Join(r.Directory, kind.Slot(l.Name, slot))])
	}
	return sets
}
