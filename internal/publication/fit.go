package publication

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Fit is the report within MaxReport of its roles. Certificates that there is no room
// for are left out, first those that only roles besides own present: who connects to these
// from outside knows them. A report that is too long even without any says that nothing is
// known.
func (r Report) Fit(own []Role) Report {
	limit := MaxReport(len(r.Roles) + len(r.Unknown))
	certificates := r.Certificates
	r.Certificates = nil
	data, err := json.Marshal(r)
	if err != nil || len(data) > limit {
		return r.nothingKnown(len(data), limit)
	}
	room := limit - len(data) - len(`,"certificates":{}`)
	for _, name := range r.byNeed(own) {
		der, carried := certificates[name]
		if _, taken := r.Certificates[name]; !carried || taken {
			continue
		}
		if room -= len(name) + len(`"":"",`) + base64.StdEncoding.EncodedLen(len(der)); room < 0 {
			return r
		}
		if r.Certificates == nil {
			r.Certificates = map[string][]byte{}
		}
		r.Certificates[name] = der
	}
	return r
}

// byNeed names the certificates of the report, those that a decision needs most first.
func (r Report) byNeed(own []Role) []string {
	var anchors, members, publications, clients []string
	for _, role := range slices.Sorted(maps.Keys(r.Roles)) {
		said := r.Roles[role]
		anchors = append(anchors, said.Trusts...)
		presents := slices.Concat([]string{said.Presents}, said.Chain)
		if slices.Contains(own, role) {
			members = append(members, presents...)
		} else {
			clients = append(clients, presents...)
		}
	}
	all := slices.Clone(r.Loading)
	if r.Mounted != nil {
		all = append(all, *r.Mounted)
	}
	for _, p := range all {
		publications = append(append(publications, p.Identities[NodeIdentity]), p.Chain...)
		clients = append(clients, slices.Sorted(maps.Values(p.Identities))...)
	}
	return slices.Concat(anchors, members, publications, clients)
}

func (r Report) nothingKnown(length, limit int) Report {
	unknown := slices.Concat(r.Unknown, slices.Collect(maps.Keys(r.Roles)))
	slices.Sort(unknown)
	return Report{
		Revision: r.Revision, StartedAt: r.StartedAt, Roles: map[Role]RoleReport{}, Unknown: unknown,
		Reload: ReloadReport{Revision: r.Reload.Revision, Failure: fmt.Sprintf(
			"what the server has loaded takes %d bytes to tell, and %d are read: restart the pod, or have fewer listeners or anchors", length, limit)},
	}
}
