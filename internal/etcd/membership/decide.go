package membership

import (
	"fmt"
	"slices"
	"strings"
)

// Member is a member as the status of the cluster has it.
type Member struct {
	Name   string
	PodUID string
	// ID is the id that etcd gave it, empty until it has started.
	ID string
	// IsVoter is false of a learner, and of a member that etcd was not heard of.
	IsVoter bool
}

// Pod is what is stored under the name of a member's pod.
type Pod struct {
	UID string
	// IsOwned is true when the cluster controls the pod.
	IsOwned bool
	// MayRun is true when the pod has been given certificates or is ready: etcd may run in it.
	MayRun   bool
	IsReady  bool
	IsEnding bool
}

// Listed is a member as etcd has it.
type Listed struct {
	ID string
	// Name is that of the member whose peer URL it has; empty when it is no member's.
	Name      string
	IsLearner bool
	// HasStarted is false until the member has told etcd its name.
	HasStarted bool
}

// Observed is everything that the decision depends on.
type Observed struct {
	Size int
	// Paused keeps members as they are.
	Paused bool
	// Names are those of the first members there can be, in their order; there are at least Size.
	Names []string
	// Members are those of the status.
	Members []Member
	// Pods by name.
	Pods map[string]Pod
	// HasClaim is true of a member whose claim exists. Ephemeral members have none.
	HasClaim  map[string]bool
	Ephemeral bool
	// List is what etcd answered; nil when it was not asked or did not answer.
	List []Listed
}

// Act is the next thing to do: Rest, Ask, CreatePod, DeletePod, AddLearner or Promote.
type Act interface{ isAct() }

// Rest is nothing to do until something changes.
type Rest struct{}

// Ask is a question to etcd: who are its members.
type Ask struct{}

// CreatePod creates the pod of a member, with everything that it mounts.
type CreatePod struct {
	Name string
	// Existing is false of the first member of a new cluster.
	Existing bool
	// Members are all members as etcd has them, this one included.
	Members []string
}

// DeletePod deletes a pod that was created and not recorded, so that it is created again.
type DeletePod struct{ Name, UID string }

// AddLearner tells etcd that a member will join.
type AddLearner struct{ Name string }

// Promote makes a learner a voter, if it has caught up.
type Promote struct{ Name, ID string }

func (Rest) isAct()       {}
func (Ask) isAct()        {}
func (CreatePod) isAct()  {}
func (DeletePod) isAct()  {}
func (AddLearner) isAct() {}
func (Promote) isAct()    {}

// Reason is why the cluster cannot come to its size by itself. It serves as the reason of a condition.
type Reason string

// The reasons.
const (
	UnknownMemberPod   Reason = "UnknownMemberPod"
	UnknownMember      Reason = "UnknownMember"
	MemberDataLost     Reason = "MemberDataLost"
	ScalingDown        Reason = "ScaleDownNotSupported"
	WaitingForMembers  Reason = "WaitingForMembers"
	EtcdNotAnswering   Reason = "EtcdNotAnswering"
	WaitingForPods     Reason = "WaitingForPods"
	WaitingForLearners Reason = "WaitingForLearner"
)

// Obstacle is why nothing more is done.
type Obstacle struct {
	Reason  Reason
	Message string
}

// Decision is the next act, and what keeps the cluster from its size after it. Obstacle is nil when all is done.
type Decision struct {
	Act      Act
	Obstacle *Obstacle
}

// Decide says what to do next.
func Decide(o Observed) Decision {
	if d, found := o.unrecorded(); found {
		return d
	}
	if o.Paused {
		return Decision{Act: Rest{}}
	}
	if len(o.Members) == 0 {
		return o.create(CreatePod{Name: o.Names[0], Members: o.Names[:1]})
	}
	if d, found := o.missing(); found {
		return d
	}
	if len(o.Members) > o.Size {
		return rest(ScalingDown, "The cluster has %d members and spec.size is %d. Removing members is not supported yet, and nothing is done. Set spec.size to %d.",
			len(o.Members), o.Size, len(o.Members))
	}
	if o.isSettled() {
		return o.resting()
	}
	return o.grow()
}

// unrecorded looks for a pod that has the name of a member and was not recorded. One that the operator created just
// before it crashed never got a certificate: it is made again, so that no other can pass for it.
func (o Observed) unrecorded() (Decision, bool) {
	for _, name := range o.Names {
		pod, exists := o.Pods[name]
		if !exists || pod.UID == o.recorded(name) || pod.IsEnding {
			continue
		}
		if pod.IsOwned && !pod.MayRun && !o.Paused {
			return Decision{Act: DeletePod{Name: name, UID: pod.UID}}, true
		}
		return rest(UnknownMemberPod, "Pod %s was not created by the operator. It gets no certificate, and members are neither added nor replaced. Delete it.", name), true
	}
	return Decision{}, false
}

func (o Observed) recorded(name string) string {
	if i := o.index(name); i >= 0 {
		return o.Members[i].PodUID
	}
	return ""
}

func (o Observed) index(name string) int {
	return slices.IndexFunc(o.Members, func(m Member) bool { return m.Name == name })
}

// missing creates the pod of a recorded member again that has none. It needs the data that the member had.
func (o Observed) missing() (Decision, bool) {
	for _, member := range o.Members {
		if _, exists := o.Pods[member.Name]; exists {
			continue
		}
		if member.ID != "" && (o.Ephemeral || !o.HasClaim[member.Name]) {
			return rest(MemberDataLost, "Member %s has lost its pod and its data. Replacing a member is not supported yet, and nothing is done. The other members serve as long as they are a quorum. Restore the data, or create the cluster again.", member.Name), true
		}
		if member.ID == "" && len(o.Members) > 1 && o.List == nil {
			return Decision{Act: Ask{}, Obstacle: unanswered()}, true
		}
		return o.create(CreatePod{Name: member.Name, Existing: len(o.Members) > 1, Members: o.listedWith(member.Name)}), true
	}
	return Decision{}, false
}

func (o Observed) create(pod CreatePod) Decision {
	return Decision{Act: pod, Obstacle: &Obstacle{WaitingForPods, fmt.Sprintf("Pod %s is being created.", pod.Name)}}
}

// listedWith are the members as etcd has them, and one more.
func (o Observed) listedWith(name string) []string {
	names := []string{name}
	for _, listed := range o.List {
		if listed.Name != name {
			names = append(names, listed.Name)
		}
	}
	slices.Sort(names)
	return names
}

// isSettled reports whether all members are voters as far as the status knows.
func (o Observed) isSettled() bool {
	return len(o.Members) == o.Size && !slices.ContainsFunc(o.Members, func(m Member) bool { return m.ID == "" || !m.IsVoter })
}

func (o Observed) resting() Decision {
	if unready := o.unready(); len(unready) > 0 {
		return rest(WaitingForPods, "Pods %s are not ready. See their logs if that lasts.", strings.Join(unready, ", "))
	}
	return Decision{Act: Rest{}}
}

func (o Observed) unready() []string {
	var names []string
	for _, member := range o.Members {
		if pod := o.Pods[member.Name]; !pod.IsReady || pod.IsEnding {
			names = append(names, member.Name)
		}
	}
	return names
}

// grow asks etcd, and brings the cluster one step nearer to its size.
func (o Observed) grow() Decision {
	if !slices.ContainsFunc(o.Members, func(m Member) bool { return o.Pods[m.Name].IsReady }) {
		return o.resting()
	}
	if o.List == nil {
		return Decision{Act: Ask{}, Obstacle: unanswered()}
	}
	if i := slices.IndexFunc(o.List, func(l Listed) bool { return l.Name == "" }); i >= 0 {
		return rest(UnknownMember, "etcd has member %s, which the operator did not add. Members are neither added nor promoted. Remove it with etcdctl member remove %s.", o.List[i].ID, o.List[i].ID)
	}
	if i := slices.IndexFunc(o.List, func(l Listed) bool { return l.IsLearner || !l.HasStarted }); i >= 0 {
		return o.join(o.List[i])
	}
	return o.add()
}

// join takes a member that was added to etcd on its way to be a voter.
func (o Observed) join(listed Listed) Decision {
	if o.index(listed.Name) < 0 {
		return o.create(CreatePod{Name: listed.Name, Existing: true, Members: o.listedWith(listed.Name)})
	}
	waiting := &Obstacle{WaitingForLearners, fmt.Sprintf("Member %s has joined and is catching up.", listed.Name)}
	switch {
	case listed.HasStarted:
		return Decision{Act: Promote{Name: listed.Name, ID: listed.ID}, Obstacle: waiting}
	case o.Pods[listed.Name].MayRun:
		return Decision{Act: Ask{}, Obstacle: waiting}
	default: // its pod tells when that changes
		return rest(WaitingForPods, "Pod %s has not started. See its events if that lasts.", listed.Name)
	}
}

// add adds one more member once all others serve: a learner that cannot be reached takes nothing from the quorum, and
// a voter that it becomes must not be the one that is missed.
func (o Observed) add() Decision {
	if len(o.List) >= o.Size {
		return o.resting()
	}
	if unready := o.unready(); len(unready) > 0 {
		return rest(WaitingForPods, "Pods %s are not ready. The next member is added when they are.", strings.Join(unready, ", "))
	}
	next := slices.IndexFunc(o.Names, func(name string) bool {
		return !slices.ContainsFunc(o.List, func(l Listed) bool { return l.Name == name })
	})
	return Decision{Act: AddLearner{Name: o.Names[next]}, Obstacle: &Obstacle{WaitingForMembers, fmt.Sprintf("The cluster has %d of %d members.", len(o.List), o.Size)}}
}

func unanswered() *Obstacle {
	return &Obstacle{EtcdNotAnswering, "etcd does not answer the operator, which asks again. See the logs of the members if that lasts."}
}

func rest(reason Reason, format string, args ...any) Decision {
	return Decision{Act: Rest{}, Obstacle: &Obstacle{reason, fmt.Sprintf(format, args...)}}
}
