package membership

import (
	"fmt"
	"time"
)

// Act is the next thing to do.
type Act interface{ isAct() }

// Rest is nothing to do until something changes.
type Rest struct{}

// Ask is a question to etcd: who are its members, and how do they fare.
type Ask struct{}

// CreatePod creates the pod of a member, with everything that it mounts.
type CreatePod struct {
	Name string
	// IsFirst is true of the member that a new cluster begins with.
	IsFirst bool
	// HasJoined is true of a member that must start with the data it has, and with no empty volume.
	HasJoined bool
	// Members are all members as etcd has them, this one included. A member that has joined needs no others.
	Members []string
	Version string
}

// SetMembers tells the pod of a member that joins who the members are now.
type SetMembers struct {
	Name    string
	Members []string
}

// Adopt records a pod with its member as etcd has it.
type Adopt struct{ Member Member }

// DeletePod deletes a pod, so that it is created again if its member stays.
type DeletePod struct{ Name, UID string }

// Restart has the agent of a member start etcd again in its pod, under the CAs of a publication of this revision or a later one.
type Restart struct {
	Name, UID string
	Revision  int64
}

// DeleteClaim deletes the data of a member that etcd has removed.
type DeleteClaim struct{ Name, UID string }

// Forget deletes the record of a removed member.
type Forget struct{ Name string }

// AddLearner tells etcd that a member will join.
type AddLearner struct{ Name string }

// Promote makes a learner a voter, if it has caught up.
type Promote struct{ Name, ID string }

// MoveLeader makes another member the leader, before its own pod goes.
type MoveLeader struct{ From, To, ToID string }

// SetLeaving records whether the operator is removing a member. Only what it removes itself loses its data.
type SetLeaving struct {
	Name    string
	Leaving bool
}

// Remove removes a member from etcd. It can never join again.
type Remove struct{ Name, ID string }

// SetRestarting records that a member is restarted, and the version that its pod is created with from now on.
type SetRestarting struct {
	Name, Version string
	Since         time.Time
}

func (Rest) isAct()          {}
func (Ask) isAct()           {}
func (CreatePod) isAct()     {}
func (SetMembers) isAct()    {}
func (Adopt) isAct()         {}
func (DeletePod) isAct()     {}
func (Restart) isAct()       {}
func (DeleteClaim) isAct()   {}
func (Forget) isAct()        {}
func (AddLearner) isAct()    {}
func (Promote) isAct()       {}
func (MoveLeader) isAct()    {}
func (Remove) isAct()        {}
func (SetRestarting) isAct() {}
func (SetLeaving) isAct()    {}

// Reason is why the cluster is not as its spec says. It serves as the reason of a condition.
type Reason string

// The reasons.
const (
	UnknownMemberPod   Reason = "UnknownMemberPod"
	SpecDiffers        Reason = "SpecDiffers"
	UnknownMember      Reason = "UnknownMember"
	PeerURLChanged     Reason = "PeerURLChanged"
	MembersDisagree    Reason = "MembersDisagree"
	MemberRemoved      Reason = "MemberRemoved"
	MemberIDChanged    Reason = "MemberIDChanged"
	MemberDataLost     Reason = "MemberDataLost"
	QuorumLost         Reason = "QuorumLost"
	WaitingForMembers  Reason = "WaitingForMembers"
	EtcdNotAnswering   Reason = "EtcdNotAnswering"
	WaitingForPods     Reason = "WaitingForPods"
	WaitingForLearners Reason = "WaitingForLearner"
	ReplacingMember    Reason = "ReplacingMember"
	RemovingMember     Reason = "RemovingMember"
	Upgrading          Reason = "Upgrading"
	Restarting         Reason = "Restarting"
	DowngradeRefused   Reason = "DowngradeRefused"
	QuorumAtRisk       Reason = "QuorumAtRisk"
)

// IsKnown reports whether a reason of a condition is one of these.
func (r Reason) IsKnown() bool {
	switch r {
	case UnknownMemberPod, SpecDiffers, UnknownMember, PeerURLChanged, MembersDisagree, MemberRemoved, MemberIDChanged, MemberDataLost, QuorumLost,
		WaitingForMembers, EtcdNotAnswering, WaitingForPods, WaitingForLearners, ReplacingMember, RemovingMember, Upgrading,
		Restarting, DowngradeRefused, QuorumAtRisk:
		return true
	default:
		return false
	}
}

// Obstacle is what keeps a cluster from being as its spec says.
type Obstacle struct {
	Reason  Reason
	Message string
}

// Decision is the next act, and what keeps the cluster from its spec after it. Obstacle is nil when all is done.
type Decision struct {
	Act      Act
	Obstacle *Obstacle
	// Again is true when what is waited for is announced by nothing: etcd must be asked again soon.
	Again bool
}

func rest(reason Reason, format string, args ...any) Decision {
	return act(Rest{}, reason, format, args...)
}

func poll(reason Reason, format string, args ...any) Decision {
	d := rest(reason, format, args...)
	d.Again = true
	return d
}

func act(next Act, reason Reason, format string, args ...any) Decision {
	return Decision{Act: next, Obstacle: &Obstacle{reason, fmt.Sprintf(format, args...)}}
}
