package controller

import (
	"context"
	"slices"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// readTrusted returns what shows which CAs the members trust. The ledger and the pods are read already; Secrets are read only for a
// plane that no pod speaks for.
func (p *pass) readTrusted(ctx context.Context, members []membership.Member) (map[contract.Plane]model.Trusted, error) {
	known := map[contract.Plane]model.Trusted{}
	for _, plane := range contract.Planes() {
		known[plane] = model.Trusted{HasMembers: len(members) > 0, Used: p.used(plane)}
	}
	p.addPods(members, known)
	for _, read := range []func(context.Context, map[contract.Plane]model.Trusted) error{p.addOperator, p.addPublished} {
		if isShown(known) {
			break
		}
		if err := read(ctx, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

func isShown(known map[contract.Plane]model.Trusted) bool {
	return !slices.ContainsFunc(contract.Planes(), func(plane contract.Plane) bool { return !known[plane].IsShown() })
}

// addPods adds the CAs that the pods of members were created to accept and those that they were given since, and the certificates
// that they were issued last. The ledger may be of another day than these are.
func (p *pass) addPods(members []membership.Member, known map[contract.Plane]model.Trusted) {
	for _, member := range members {
		pod := p.pods[member.Name]
		if pod == nil || string(pod.UID) != member.PodUID {
			continue
		}
		given, leaves := givenTo(pod), leavesIn(pod)
		for _, plane := range contract.Planes() {
			trusted := known[plane]
			if cas := model.Fingerprints(given[domains.Of(plane)]); len(cas) > 0 {
				trusted.Pinned = append(trusted.Pinned, cas)
			}
			if leaf := leaves[plane]; leaf != nil {
				trusted.Presented = append(trusted.Presented, leaf)
			}
			known[plane] = trusted
		}
	}
}

// used are the CAs of the certificates in the ledger.
func (p *pass) used(plane contract.Plane) []pki.Fingerprint {
	var names []string
	for _, issued := range p.ledger.issued {
		if issued.Plane == plane {
			names = append(names, issued.CA)
		}
	}
	return model.Fingerprints(names)
}

// addOperator adds the client CA that the operator itself trusts.
func (p *pass) addOperator(ctx context.Context, known map[contract.Plane]model.Trusted) error {
	stored, err := p.private(ctx, p.cluster.Names.OperatorSecret())
	if err != nil {
		return err
	}
	trusted := known[contract.ClientPlane]
	for _, anchor := range certificatesIn(dataOf(stored)[model.OperatorAnchorsEntry]) {
		trusted.Used = append(trusted.Used, pki.FingerprintOf(anchor))
	}
	known[contract.ClientPlane] = trusted
	return nil
}

// addPublished adds what the Secrets of members name.
func (p *pass) addPublished(ctx context.Context, known map[contract.Plane]model.Trusted) error {
	for _, member := range p.memberNames() {
		stored, err := p.secret(ctx, p.inNamespace(member))
		if err != nil {
			return err
		}
		if stored == nil || !p.cluster.IsOwned(stored) && !p.cluster.IsOrphan(stored) {
			continue
		}
		for _, plane := range contract.Planes() {
			trusted := known[plane]
			if cas := namedCAs(stored.Data[agent.PublicationKey], plane); len(cas) > 0 {
				trusted.Published = append(trusted.Published, cas)
			}
			known[plane] = trusted
		}
	}
	return nil
}

// namedCAs are those that a publication names for a plane.
func namedCAs(encoded []byte, plane contract.Plane) []pki.Fingerprint {
	published, err := publication.ParsePublication(encoded)
	if err != nil {
		return nil
	}
	return model.Fingerprints(published.Trust[plane.Role()])
}
