package membership

import "slices"

// first creates the first pod of a cluster that has no members, as a new cluster or with the data that there is. A cluster
// that has had data does not begin anew without them.
func (o Observed) first() Decision {
	if len(o.Blocked) > 0 {
		return Decision{Act: Rest{}} // another owner has the data of a member, which is reported
	}
	for _, name := range o.Names {
		if claim := o.Claims[name]; claim.Unlike != "" {
			return unlike("The PersistentVolumeClaim of member "+name, claim.Unlike)
		}
	}
	_, hasClaim := o.Claims[o.Names[0]]
	hadData := o.HadMembers || o.hadData()
	d, isReturning := o.returning()
	switch {
	case isReturning && (!hasClaim || hadData):
		return d
	case hadData:
		return rest(QuorumLost, "The status of the cluster was lost, and so are the data of its members: no claim of a member has a volume, and no pod is left. etcd is not started without data, and nothing is deleted. "+
			"Create another EtcdCluster with spec.restore from a backup. To begin without data, delete this EtcdCluster and create it again.")
	default:
		return o.create(CreatePod{Name: o.Names[0], IsFirst: true, Members: o.Names[:1], Version: o.Version})
	}
}

// hadData reports whether the claims that there are show that the cluster has had data: one tells so, or there is more
// than one, which the first member did not need.
func (o Observed) hadData() bool { return o.marked() > 0 || len(o.Claims) > 1 }

// marked is on how many claims it is recorded that their members have joined.
func (o Observed) marked() int {
	marked := 0
	for _, claim := range o.Claims {
		if claim.HasJoined {
			marked++
		}
	}
	return marked
}

// unlike leaves alone what an earlier cluster has left that members of this spec cannot work with.
func unlike(object, field string) Decision {
	return rest(SpecDiffers, "%s was left by an EtcdCluster of this name with another %[2]s. It is not taken over, no member is started, and nothing is deleted. "+
		"Delete this EtcdCluster with --cascade=orphan, and create it with the %[2]s that it had.", object, field)
}

// returning creates the pod of a member that is not recorded, as after the status was lost: one that etcd has, or that
// may be missed while etcd does not answer.
func (o Observed) returning() (Decision, bool) {
	for _, name := range o.Names {
		if _, hasPod := o.Pods[name]; hasPod || o.index(name) >= 0 || slices.Contains(o.Blocked, name) {
			continue
		}
		listed, isListed := o.named(name)
		isVoter := isListed && listed.HasStarted && !listed.IsLearner
		switch {
		case o.hasVolume(name) && (isVoter || o.List == nil && o.mayHaveJoined(name)):
			return o.create(CreatePod{Name: name, HasJoined: true, Members: []string{name}, Version: o.Version}), true
		case isVoter:
			return o.remove(listed, ReplacingMember, "it has lost its data"), true
		}
	}
	return Decision{}, false
}

func (o Observed) hasVolume(name string) bool {
	claim, hasClaim := o.Claims[name]
	return hasClaim && !claim.IsLost && !claim.IsEnding
}

// mayHaveJoined reports whether a member may have joined by what its claim says. Where those that say so are no quorum, and no
// member is known by its id, all may.
func (o Observed) mayHaveJoined(name string) bool {
	isKnown := slices.ContainsFunc(o.Members, func(m Member) bool { return m.ID != "" })
	return o.Claims[name].HasJoined || !isKnown && o.marked() < quorum(len(o.Claims))
}
