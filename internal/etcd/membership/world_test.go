package membership_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

// world is an etcd cluster with its pods and volumes, in which one thing happens after the other.
type world struct {
	size      int
	version   string
	ephemeral bool
	// shape is what the spec says about pods. With the one that is called broken, none starts.
	shape string

	list   []server
	leader string
	pods   map[string]pod
	// claims by member, and what is on their volumes: the id of a member, empty before its first start.
	claims  map[string]claim
	members []membership.Member
	// cache is what the operator sees of pods before it reads past it; nil when it is up to date.
	cache map[string]pod
	last  int
	// reported is the spec that was last reported to be reached.
	reported string
	// liar is a member that answers that etcd has no other.
	liar string
	// silent is a member whose agent does not answer.
	silent string
	// late is what an operator has decided that does not lead any more, and does at any time; nil when it does nothing.
	late membership.Act
	// hadClients is true once clients were sent to a member: what etcd acknowledges from then on must not be forgotten.
	hadClients bool
	// published is the revision of the CAs that pods mount. Those before the one that is called valid have expired, and
	// with urgent the others are about to.
	published, valid int
	urgent           bool
}

// server is a member as etcd has it.
type server struct {
	id, name           string
	isLearner, started bool
}

type pod struct {
	uid, version, shape string
	// told is how etcd shall start in it, and mounted what of that its container sees.
	told, mounted start
	running, goes bool
	ended         bool
	// emptied is true when etcd was not started because the volume is empty, and marked once etcd has run in the pod on
	// its machine.
	emptied, marked bool
	// volume is what an ephemeral member has.
	volume string
	// ready is true once clients were sent to it.
	ready bool
	// mountedCAs and loaded are revisions of CAs, asked is the one that etcd was asked to be started again for.
	mountedCAs, loaded, asked int
	// restarting is true between the end of etcd and its next start in the pod, and starts are how many there were.
	restarting bool
	starts     int
}

type start struct {
	first, joined bool
	// members are the names of the members to find, with spaces between.
	members string
}

type claim struct {
	uid, volume string
	goes        bool
	// joined is true once it is recorded on it that its member has joined.
	joined bool
}

func (w *world) clone() *world {
	c := *w
	c.list, c.members = slices.Clone(w.list), slices.Clone(w.members)
	c.pods, c.claims, c.cache = maps.Clone(w.pods), maps.Clone(w.claims), maps.Clone(w.cache)
	return &c
}

// key tells worlds apart, whatever the ids in them are called.
func (w *world) key() string {
	var text strings.Builder
	called := map[string]int{"": 0}
	say := func(id string, flags ...any) {
		if _, known := called[id]; !known {
			called[id] = len(called)
		}
		fmt.Fprint(&text, called[id], flags, " ")
	}
	for _, s := range w.list {
		say(s.id, s.name[len(s.name)-1], s.isLearner, s.started)
	}
	say(w.leader)
	for _, m := range w.members {
		say(m.PodUID, m.Name[len(m.Name)-1], m.IsVoter, m.IsLeaving, m.Version, m.RestartingSince)
		say(m.ID)
	}
	for i, name := range memberNames {
		for _, pods := range []map[string]pod{w.pods, w.cache} {
			if p, exists := pods[name]; exists {
				say(p.uid, "pod", i, p.version, p.shape, p.told, p.mounted, p.running, p.goes, p.ended, p.emptied, p.marked, p.ready,
					p.mountedCAs, p.loaded, p.asked, p.restarting, p.starts)
				say(p.volume)
			}
		}
		if c, exists := w.claims[name]; exists {
			say(c.uid, "claim", i, c.goes, c.joined)
			say(c.volume)
		}
	}
	return text.String() + fmt.Sprint(w.cache == nil, w.reported == w.spec(), w.hadClients, w.published, w.valid, w.urgent, w.lateOne())
}

// lateOne names the member of a late act.
func (w *world) lateOne() string {
	switch act := w.late.(type) {
	case membership.Restart:
		return fmt.Sprint("started late ", act.Name, act.Revision, w.pods[act.Name].uid == act.UID)
	case membership.DeletePod:
		return fmt.Sprint("deleted late ", act.Name, w.pods[act.Name].uid == act.UID)
	default:
		return ""
	}
}

// decideLate has an operator decide, and stop leading before it does that.
func (w *world) decideLate() {
	act := w.clone().decide().Act
	switch act.(type) {
	case membership.Restart, membership.DeletePod:
		w.late = act
	}
}

func (w *world) spec() string { return fmt.Sprint(w.size, w.version, w.shape) }

// report records whether the cluster is as its spec says.
func (w *world) report(d membership.Decision) {
	w.reported = ""
	if _, rests := d.Act.(membership.Rest); rests && d.Obstacle == nil {
		w.reported = w.spec()
	}
}

// fresh is a new id of anything.
func (w *world) fresh() string {
	w.last++
	return fmt.Sprint("n", w.last)
}

// today is when everything in a world happens.
var today = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// pass has time go by, until what was recorded to be done is taken to be done or given up.
func (w *world) pass() {
	w.members = slices.Clone(w.members)
	for i := range w.members {
		w.members[i].RestartingSince = time.Time{}
	}
}

// memberNames are those of all members there can be.
var memberNames = []string{"my-cluster-0", "my-cluster-1", "my-cluster-2", "my-cluster-3", "my-cluster-4", "my-cluster-5", "my-cluster-6"}

// broken is the shape of pods that do not start.
const broken = "broken"

// outdated counts pods that are not as the spec says.
func (w *world) outdated() int {
	outdated := 0
	for _, p := range w.pods {
		if p.version != w.version || p.shape != w.shape || p.loaded != w.published {
			outdated++
		}
	}
	return outdated
}

func (w *world) serves(s server) bool {
	p, exists := w.pods[s.name]
	return exists && p.running && s.started && w.volume(s.name) == s.id && p.loaded >= w.valid
}

func (w *world) volume(name string) string {
	if w.ephemeral {
		return w.pods[name].volume
	}
	return w.claims[name].volume
}

// quorate reports whether etcd has a leader, and elects one.
func (w *world) quorate() bool {
	voters, serving, leads := 0, []string{}, false
	for _, s := range w.list {
		if s.isLearner {
			continue
		}
		voters++
		if w.serves(s) {
			serving = append(serving, s.id)
			leads = leads || s.id == w.leader
		}
	}
	if len(serving) < voters/2+1 {
		return false
	}
	if !leads {
		w.leader = serving[0]
	}
	return true
}

// start is a kubelet that starts the pod of a member, and etcd in it. It returns what must never happen.
func (w *world) start(name string) error {
	p, exists := w.pods[name]
	at := slices.IndexFunc(w.members, func(m membership.Member) bool { return m.Name == name })
	if !exists || p.running || p.goes || p.ended || p.shape == broken || at < 0 || w.members[at].PodUID != p.uid {
		return nil
	}
	_, hasClaim := w.claims[name]
	if !w.ephemeral && !hasClaim {
		return nil
	}
	volume := w.volume(name)
	listed := slices.IndexFunc(w.list, func(s server) bool { return s.name == name && (volume == "" || s.id == volume) })
	switch {
	case volume == "" && (p.mounted.joined || p.marked): // its first process refuses
		p.emptied = true
		w.pods[name] = p
		return nil
	case volume != "" && listed < 0:
		return nil // etcd refuses
	case volume != "":
		w.run(name, volume)
		return nil
	case p.mounted.first && (len(w.list) > 1 || w.hadClients):
		return fmt.Errorf("%s makes another cluster", name)
	case p.mounted.first:
		w.list = []server{{id: w.fresh(), name: name}}
		listed = 0
	case listed < 0 || !w.quorate() || p.mounted.members != w.listed():
		return nil // etcd ends, or waits
	case w.list[listed].started && w.list[listed].isLearner:
		return nil // etcd panics: its leader knows of more than it has
	case w.list[listed].started:
		return fmt.Errorf("%s starts with an empty volume under its old id", name)
	}
	w.list[listed].started = true
	w.run(name, w.list[listed].id)
	return nil
}

// listed are the names of the members as etcd has them.
func (w *world) listed() string {
	var names []string
	for _, s := range w.list {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// empty takes the data of a member away and ends its container, while its pod and its claim stay.
func (w *world) empty(name string) {
	if p, exists := w.pods[name]; exists && w.volume(name) != "" {
		p.running, p.volume = false, ""
		w.pods[name] = p
	}
	if c, exists := w.claims[name]; exists {
		c.volume = ""
		w.claims[name] = c
	}
}

// rebuild makes the machine of a member anew, and the kubelet reads its pod.
func (w *world) rebuild(name string) {
	w.empty(name)
	if p, exists := w.pods[name]; exists {
		p.running, p.marked, p.mounted = false, false, p.told
		w.pods[name] = p
	}
}

// mount shows the container what its pod is told.
func (w *world) mount(name string) {
	if p, exists := w.pods[name]; exists {
		p.mounted = p.told
		w.pods[name] = p
	}
}

// send sends clients to the members that are ready.
func (w *world) send() {
	for name, p := range w.pods {
		if w.isReady(name) {
			p.ready, w.hadClients = true, true
			w.pods[name] = p
		}
	}
}

// isReady reports whether the pod of a member says that clients may be sent to it.
func (w *world) isReady(name string) bool {
	p := w.pods[name]
	return w.quorate() && p.running && p.mounted.joined && w.votes(name)
}

func (w *world) run(name, volume string) {
	p, c := w.pods[name], w.claims[name]
	p.running, p.marked, p.emptied, p.volume, c.volume = true, true, false, volume, volume
	p.loaded, p.restarting = p.mountedCAs, false
	w.pods[name] = p
	if !w.ephemeral {
		w.claims[name] = c
	}
}

// kill takes a pod away, and with it a claim that was deleted while it was in use.
func (w *world) kill(name string) {
	delete(w.pods, name)
	if w.claims[name].goes {
		delete(w.claims, name)
	}
}

// lose deletes a claim: at once if no pod uses it.
func (w *world) lose(name string) {
	c, exists := w.claims[name]
	if !exists {
		return
	}
	if _, used := w.pods[name]; !used {
		delete(w.claims, name)
		return
	}
	c.goes = true
	w.claims[name] = c
}

// observe is what the operator sees: of pods what the cache has, until it asks.
func (w *world) observe(asked bool) membership.Observed {
	o := membership.Observed{
		Size: w.size, Version: w.version, Names: memberNames, Members: w.members, Ephemeral: w.ephemeral, Asked: asked,
		Now:      today,
		WasReady: w.reported == w.spec(), HadMembers: len(w.list) > 0,
		Pods: map[string]membership.Pod{}, Claims: map[string]membership.Claim{},
	}
	pods := w.pods
	if !asked && w.cache != nil {
		pods = w.cache
	}
	for name, p := range pods {
		o.Pods[name] = membership.Pod{
			UID: p.uid, IsOwned: true, IsLeft: w.isLeft(name), IsVoter: w.isVoter(name), IsEphemeral: w.ephemeral, MayRun: p.running || p.restarting, IsReady: p.running && w.isReady(name), IsEnding: p.goes, HasEnded: p.ended,
			IsEmptied: p.emptied, HasJoined: p.told.joined, Members: strings.Fields(p.told.members), Version: p.version, HasOldSpec: p.shape != w.shape,
			AskedRevision: int64(p.asked), IsSilent: w.silent == name,
		}
	}
	for name, pod := range o.Pods {
		if !pod.IsSilent {
			pod.Due = w.due(pods[name])
			pod.HasLoaded = pod.Due.Revision == 0
			o.Pods[name] = pod
		}
	}
	for name, c := range w.claims {
		o.Claims[name] = membership.Claim{UID: c.uid, IsEnding: c.goes, HasJoined: c.joined}
	}
	if !asked || !w.quorate() && w.liar == "" {
		return o
	}
	for _, s := range w.list {
		if w.liar != "" && w.liar != s.name {
			continue
		}
		if w.serves(s) && (w.isReady(s.name) || len(w.members) == 1) {
			o.Heard = append(o.Heard, s.name)
		}
		o.List = append(o.List, membership.Listed{
			ID: s.id, Name: s.name, IsLearner: s.isLearner, HasStarted: s.started,
			Answers: w.serves(s) && w.isReady(s.name), IsLeader: s.id == w.leader,
		})
	}
	return o
}

func (w *world) votes(name string) bool {
	return slices.ContainsFunc(w.list, func(s server) bool { return s.name == name && !s.isLearner && w.serves(s) })
}

// decide is a reconcile up to its act.
func (w *world) decide() membership.Decision {
	o := w.observe(false)
	w.members = o.Restarted()
	o.Members = w.members
	d := membership.Decide(o)
	if _, asks := d.Act.(membership.Ask); !asks {
		return d
	}
	o = w.observe(true)
	w.members = membership.Record(w.members, o.List)
	o.Members = w.members
	return membership.Decide(o)
}

// isLeft reports whether a pod is a member's that has joined and is not recorded.
func (w *world) isLeft(name string) bool {
	return w.pods[name].told.joined && !slices.ContainsFunc(w.members, func(m membership.Member) bool { return m.Name == name })
}

// isVoter reports whether etcd has a member as a voter, as the label of its pod says.
func (w *world) isVoter(name string) bool {
	return slices.ContainsFunc(w.list, func(s server) bool { return s.name == name && !s.isLearner })
}

// forget loses the status, as a backup without it does.
func (w *world) forget() { w.members, w.reported = nil, "" }

// recordStarts records of members that etcd has that they have joined.
func (w *world) recordStarts() {
	for _, m := range w.members {
		if c, exists := w.claims[m.Name]; exists && m.ID != "" {
			c.joined = true
			w.claims[m.Name] = c
		}
		if p, exists := w.pods[m.Name]; exists && m.ID != "" && p.uid == m.PodUID && !p.told.joined {
			p.told = start{joined: true, members: m.Name}
			w.pods[m.Name] = p
		}
	}
}

// carryOut does what was decided. An operator that crashes records nothing of it.
func (w *world) carryOut(next membership.Act, crashes bool) error {
	recorded := w.members
	defer w.recordStarts()
	switch act := next.(type) {
	case membership.SetMembers:
		p := w.pods[act.Name]
		p.told = start{members: strings.Join(act.Members, " ")}
		w.pods[act.Name] = p
	case membership.CreatePod:
		return w.createPod(act, crashes)
	case membership.DeletePod:
		if w.pods[act.Name].uid == act.UID {
			w.kill(act.Name)
		}
	case membership.Restart:
		if p := w.pods[act.Name]; p.uid == act.UID {
			p.asked = int(act.Revision)
			w.pods[act.Name] = p
		}
	case membership.DeleteClaim:
		if slices.ContainsFunc(w.list, func(s server) bool { return s.id == w.claims[act.Name].volume }) {
			return fmt.Errorf("the data of %s, which is a member, is deleted", act.Name)
		}
		w.lose(act.Name)
	case membership.Adopt:
		recorded = membership.Adopted(recorded, act.Member)
	case membership.Forget:
		recorded = membership.Forgotten(recorded, act.Name)
	case membership.AddLearner:
		w.list = append(w.list, server{id: w.fresh(), name: act.Name, isLearner: true})
	case membership.Promote:
		for i := range w.list {
			if w.list[i].id == act.ID && w.serves(w.list[i]) {
				w.list[i].isLearner = false
			}
		}
	case membership.Remove:
		w.list = slices.DeleteFunc(w.list, func(s server) bool { return s.id == act.ID })
	case membership.MoveLeader:
		w.leader = act.ToID
	case membership.SetRestarting:
		recorded = membership.WithRestarting(recorded, act)
	case membership.SetLeaving:
		recorded = membership.WithLeaving(recorded, act.Name, act.Leaving)
	case membership.Ask, membership.Rest:
	}
	if !crashes {
		w.members = recorded
	}
	return nil
}

func (w *world) createPod(act membership.CreatePod, crashes bool) error {
	c, hasClaim := w.claims[act.Name]
	if _, exists := w.pods[act.Name]; exists || act.HasJoined && !w.ephemeral && (!hasClaim || c.goes) || c.goes {
		return nil // the API server says so
	}
	if !hasClaim && !w.ephemeral {
		w.claims[act.Name] = claim{uid: w.fresh()}
	}
	p := pod{uid: w.fresh(), version: act.Version, shape: w.shape, told: start{act.IsFirst, act.HasJoined, strings.Join(act.Members, " ")}}
	p.mounted, p.mountedCAs = p.told, w.published
	w.pods[act.Name] = p
	if !crashes {
		w.members = membership.Created(w.members, act, p.uid)
	}
	return nil
}
