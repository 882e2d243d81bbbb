package membership

import "slices"

// first creates the first pod of a cluster that has no members, as a new cluster or with the data that there is.
func (o Observed) first() Decision {
	_, hasClaim := o.Claims[o.Names[0]]
	if d, found := o.returning(); found && !hasClaim {
		return d
	}
	return o.create(CreatePod{Name: o.Names[0], IsFirst: true, Members: o.Names[:1], Version: o.Version})
}

// returning creates the pod of a member that is not recorded, as after the status was lost: one that etcd has, or that
// has a claim while no member is known by its id.
func (o Observed) returning() (Decision, bool) {
	isUnknown := o.List == nil && !slices.ContainsFunc(o.Members, func(m Member) bool { return m.ID != "" })
	for _, name := range o.Names {
		if _, hasPod := o.Pods[name]; hasPod || o.index(name) >= 0 || slices.Contains(o.Blocked, name) {
			continue
		}
		listed, isListed := o.named(name)
		isVoter := isListed && listed.HasStarted && !listed.IsLearner
		switch {
		case o.hasData(name) && (isVoter || isUnknown):
			return o.create(CreatePod{Name: name, HasJoined: true, Members: []string{name}, Version: o.Version}), true
		case isVoter:
			return o.remove(listed, ReplacingMember, "it has lost its data"), true
		}
	}
	return Decision{}, false
}

func (o Observed) hasData(name string) bool {
	claim, hasClaim := o.Claims[name]
	return hasClaim && !claim.IsLost && !claim.IsEnding
}
