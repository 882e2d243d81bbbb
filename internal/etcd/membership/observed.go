package membership

import (
	"slices"
	"time"
)

// Member is a member as the status of the cluster has it.
type Member struct {
	Name   string
	PodUID string
	// ID is the id that etcd gave it, empty until it has started.
	ID string
	// IsVoter is false of a learner, and of a member that etcd was not heard of.
	IsVoter bool
	// IsLeaving is true once the operator has decided to remove the member from etcd.
	IsLeaving bool
	// Version of etcd that its pod is created with.
	Version string
	// RestartingSince is when the operator decided to restart the member; zero once that is over.
	RestartingSince time.Time
}

// Pod is what is stored under the name of a member's pod.
type Pod struct {
	UID string
	// IsOwned is true when the cluster controls the pod.
	IsOwned bool
	// IsLeft is true when it is a member's that is not recorded: the status was lost, or an EtcdCluster of this name was deleted
	// without it.
	IsLeft bool
	// IsVoter is true of a pod that clients have been sent to.
	IsVoter bool
	// Unlike is the field of the spec that was another one when a pod that is left was created; empty when it was the same.
	Unlike string
	// IsEphemeral is true when it has the data of its member in it, and no claim.
	IsEphemeral bool
	// MayRun is true when the pod has been given certificates or is ready: etcd may run in it.
	MayRun   bool
	IsReady  bool
	IsEnding bool
	// HasEnded is true when its containers have ended for good, as after an eviction, and etcd does not answer in it.
	HasEnded bool
	// IsEmptied is true when its member has joined, and etcd is not started in it because its volume has no data.
	IsEmptied bool
	// HasJoined is true when the pod has been told that its member has joined. Members are those that it has
	// been told to find: how etcd starts in it.
	HasJoined bool
	Members   []string
	// Version of etcd that it was created with.
	Version string
	// IsStale is true when it was started with other CAs than those that members shall trust.
	IsStale bool
	// HasOldSpec is true when it was created of another spec.
	HasOldSpec bool
	// AwaitsMount is true when its volume has grown, and the file system grows only under another pod.
	AwaitsMount bool
	// IsDown is true when no process runs in its container, as between two starts of one that fails.
	IsDown bool
	// Due is what its etcd is to be started again for. HasLoaded is true when it is known that this is nothing.
	Due       Due
	HasLoaded bool
	// AskedRevision is the revision that it has been asked to start etcd again for, 0 when never.
	AskedRevision int64
	// IsSilent is true while its agent does not tell under which publication etcd was started.
	IsSilent bool
	// IsOverdue is true when it was asked so long ago that its etcd should have been started again.
	IsOverdue bool
}

// Claim is the claim with the data of a member.
type Claim struct {
	UID      string
	IsEnding bool
	// IsLost is true when its volume is gone.
	IsLost bool
	// HasJoined is true once it is recorded on the claim that its member has joined, as before clients are sent to it.
	HasJoined bool
	// Unlike is as that of a pod.
	Unlike string
}

// Listed is a member as etcd has it.
type Listed struct {
	ID string
	// Name is that of the recorded member with its id, or of the member whose peer URL it has; empty when it is no member's.
	Name      string
	IsLearner bool
	// OwnURL is the peer URL of a recorded member where etcd has others; empty where etcd has that.
	OwnURL string
	// HasStarted is false until the member has told etcd its name.
	HasStarted bool
	// Answers is true when the member itself has answered and knows a leader. Only those whose pod is ready are asked.
	Answers  bool
	IsLeader bool
	// Received and Applied are how many entries of the log of the cluster it has received and applied.
	Received, Applied uint64
}

// Observed is everything that the decision depends on.
type Observed struct {
	Size int
	// Version that members shall run.
	Version string
	Now     time.Time
	// Paused keeps members as they are.
	Paused bool
	// WithoutIdentity is true when the operator gives pods no certificates: one that was not recorded cannot pass for another.
	WithoutIdentity bool
	// Names are those of all members there can be, in their order.
	Names []string
	// Members are those of the status.
	Members []Member
	// Pods by name.
	Pods map[string]Pod
	// Claims by the name of the member, of members without a ready pod. Ephemeral members have none, and an ephemeral
	// cluster without members has those that an earlier one has left.
	Claims    map[string]Claim
	Ephemeral bool
	// HadMembers is true when a certificate was issued to a member of the cluster, recorded or not.
	HadMembers bool
	// WasReady is true when nothing about members was reported to be in the way of this spec. Until then etcd may have
	// been changed without a record.
	WasReady bool
	// Blocked are members that something is in the way of which is not the operator's: they are left as they are.
	Blocked []string
	// Asked is true when etcd was asked, and the pods and claims were read past any cache.
	Asked bool
	// List is what etcd answered; nil when it was not asked or did not answer.
	List []Listed
	// Heard are the names of the members that have answered it, all the same.
	Heard []string
	// Alarms are those that etcd has.
	Alarms []Alarm
	// Known are the members that etcd was last seen with; nil when that is not known.
	Known []Listed
	// Silence is why members that are ready do not answer, when none does.
	Silence []Silent
	// Unpulled are members whose pods wait for their image.
	Unpulled []Silent
	// Unresolved are members that are not ready, and whose name is not in DNS.
	Unresolved []Silent
}

// Blocking is the cluster with the member of an act that cannot be carried out left as it is. It is false when that does
// not change the decision.
func (o Observed) Blocking(failed Act) (Observed, bool) {
	var name string
	switch act := failed.(type) {
	case CreatePod:
		name = act.Name
	case DeletePod:
		name = act.Name
	case Restart:
		name = act.Name
	}
	if name == "" || slices.Contains(o.Blocked, name) {
		return o, false
	}
	o.Blocked = append(slices.Clone(o.Blocked), name)
	return o, true
}

// Silent is a member that is not heard of, and why not.
type Silent struct{ Name, Cause string }

func (o Observed) index(name string) int {
	return slices.IndexFunc(o.Members, func(m Member) bool { return m.Name == name })
}

func (o Observed) recorded(name string) string {
	if i := o.index(name); i >= 0 {
		return o.Members[i].PodUID
	}
	return ""
}

// listed finds a recorded member among those that etcd has.
func (o Observed) listed(member Member) (Listed, bool) {
	i := slices.IndexFunc(o.List, func(l Listed) bool {
		return l.ID == member.ID || member.ID == "" && l.Name == member.Name
	})
	if i < 0 {
		return Listed{}, false
	}
	return o.List[i], true
}

// named finds the member of a name among those that etcd has.
func (o Observed) named(name string) (Listed, bool) {
	i := slices.IndexFunc(o.List, func(l Listed) bool { return l.Name == name })
	if i < 0 {
		return Listed{}, false
	}
	return o.List[i], true
}

// voters are the members that count for the quorum, as etcd has them.
func (o Observed) voters() []Listed {
	return slices.DeleteFunc(slices.Clone(o.List), func(l Listed) bool { return l.IsLearner })
}

// hasJoined reports whether a member has joined, as the status, its pod or its claim has it.
func (o Observed) hasJoined(member Member) bool {
	return member.ID != "" || o.Pods[member.Name].HasJoined || o.Claims[member.Name].HasJoined
}

// hasLostData reports whether a member cannot come back: it has started, and its data is gone. A pod that is not
// ready for any other reason is waited for.
func (o Observed) hasLostData(member Member) bool {
	pod, exists := o.Pods[member.Name]
	claim, hasClaim := o.Claims[member.Name]
	isKnown := !slices.Contains(o.Blocked, member.Name)
	switch {
	case pod.IsEmptied:
		return isKnown
	case !isKnown, member.ID == "", exists && pod.IsReady:
		return false
	case o.Ephemeral:
		return !exists || pod.HasEnded
	case exists:
		return !hasClaim || claim.IsLost
	default:
		return !hasClaim || claim.IsLost || claim.IsEnding
	}
}

// quorum is how many of so many voters must serve.
func quorum(voters int) int { return voters/2 + 1 }
