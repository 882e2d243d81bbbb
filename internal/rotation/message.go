package rotation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// Short is how much of an anchor's SHA-256 people get to see in a sentence or a table.
func Short(id trust.AnchorID) string { return string(id[:min(pki.ShortLength, len(id))]) }

// Label is what people call an anchor: its common name, and the beginning of its
// SHA-256, because a renewed certificate has the common name of the one before it.
func Label(id trust.AnchorID, names map[trust.AnchorID]AnchorName) string {
	name := names[id]
	if name.CommonName == "" {
		return Short(id)
	}
	return fmt.Sprintf("%s (%s)", name.CommonName, Short(id))
}

// Subject is the authority that a message is about.
type Subject struct {
	Anchors map[trust.AnchorID]AnchorName
	// KeySecret and CertSecret are the Secrets of the authority.
	KeySecret, CertSecret string
}

// Subject is the authority of the record.
func (r Record) Subject() Subject { return r.Words.Subject(r.Cluster, r.Domain, r.Anchors) }

// Message says in one line where a domain stands: what moves to what and how, who
// is waited for since when, what a person can do, and when time runs out. It stays
// the same as long as nothing changes.
func (w *Words) Message(s trust.Snapshot, plan trust.Plan, about Subject) string {
	v, phase, names := newView(w, s, plan), w.PhaseOf(s, plan), about.Anchors
	v.subject = about
	if v.complete(phase, names) {
		return v.completion(names) + ". " + v.retirement(names)
	}
	parts := []string{v.course(phase, names)}
	for _, part := range []string{v.activity(phase), v.waiting(phase), v.advice(phase, names), v.refusals(names), v.urgency(phase, names)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// Refusal is what a message says beside of an authority that cannot be used because of
// what is wrong with its Secrets; nothing of any other.
func Refusal(wrong string) string {
	if wrong == "" {
		return ""
	}
	return "; it is refused: " + wrong
}

// unusable says who is waited for where an authority cannot be used: a person.
func unusable(wrong string) []string {
	return []string{"waiting for a CA that can be used" + Refusal(wrong)}
}

// course says what moves to what, and in which way.
func (v *view) course(phase Phase, names map[trust.AnchorID]AnchorName) string {
	if v.target == nil {
		return fmt.Sprintf("the CA cannot be used: nothing changes, and %ss and clients keep the certificates they have", v.words.Node)
	}
	target := Label(v.Issuing, names)
	old := v.labels(v.others(), names)
	if len(old) == 0 {
		return alone(phase, target) + v.beside(names)
	}
	sentence := fmt.Sprintf("%s is replacing %s", target, strings.Join(old, ", "))
	if kind := v.plan.Strategy.Kind; kind != "" {
		sentence += fmt.Sprintf(" (%s: %s)", kind, v.plan.Strategy.Reason)
	}
	return sentence
}

// complete reports whether nothing is left of a rotation but the time until the old CA
// expires.
func (v *view) complete(phase Phase, names map[trust.AnchorID]AnchorName) bool {
	return phase == WaitingForExpiry && v.activity(phase) == "" && v.waiting(phase) == "" && v.refusals(names) == ""
}

// completion says what moved to what. How no longer matters.
func (v *view) completion(names map[trust.AnchorID]AnchorName) string {
	return fmt.Sprintf("The rotation from %s to %s is complete", strings.Join(v.labels(v.others(), names), ", "), Label(v.Issuing, names))
}

// labels are the sorted labels of anchors.
func (v *view) labels(anchors []*trust.Anchor, names map[trust.AnchorID]AnchorName) []string {
	labels := make([]string, 0, len(anchors))
	for _, a := range anchors {
		labels = append(labels, Label(a.ID, names))
	}
	slices.Sort(labels)
	return labels
}

// beside names what stays trusted beside the target on purpose.
func (v *view) beside(names map[trust.AnchorID]AnchorName) string {
	var kept []string
	for i := range v.Anchors {
		if a := &v.Anchors[i]; a.Beside(v.Issuing) {
			kept = append(kept, Label(a.ID, names))
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return "; its owner also keeps " + some(kept) + " trusted"
}

func alone(phase Phase, target string) string {
	switch phase {
	case Trusted:
		return target + " is the only CA that is trusted and used"
	case Establishing:
		return target + " is being established"
	default:
		return target + " is the only CA"
	}
}

// activity says what the operator and the nodes are doing about it.
func (v *view) activity(phase Phase) string {
	if phase == Paused {
		return ""
	}
	loads := slices.DeleteFunc(slices.Clone(v.plan.Loads), func(l trust.Load) bool { return l.MayBeDeferred })
	var out []string
	for _, how := range []trust.How{trust.ByReload, trust.ByRestart, trust.ByForget} {
		var members, reasons []string
		for _, l := range loads {
			if l.How == how {
				members = append(members, string(l.Member))
				reasons = append(reasons, l.Reason)
			}
		}
		if len(members) > 0 {
			out = append(out, doing(how, members, reasons))
		}
	}
	return strings.Join(out, "; ")
}

func doing(how trust.How, members, reasons []string) string {
	sentence := map[trust.How]string{
		trust.ByReload: "reloading ", trust.ByRestart: "restarting one by one ", trust.ByForget: "deleting the persisted settings of ",
	}[how] + some(members)
	slices.Sort(reasons)
	reasons = slices.DeleteFunc(slices.Compact(reasons), func(reason string) bool { return reason == "" })
	if len(reasons) > 0 {
		sentence += " because " + strings.Join(reasons, ", and ")
	}
	return sentence
}

// some names the first few, sorted, and counts the rest.
func some(names []string) string { return shortened(names, excerpt.Named) }

func shortened(names []string, limit int) string {
	return excerpt.First(slices.Compact(slices.Sorted(slices.Values(names))), limit, ", ")
}

// waiting names the peers that the shut guards wait for, by guard and complaint.
func (v *view) waiting(phase Phase) string {
	if slices.Contains([]Phase{Paused, AuthorityMissing, Trusted, Announcing}, phase) {
		return ""
	}
	asked := slices.DeleteFunc(slices.Clone(v.plan.Blockers), func(b trust.Blocker) bool { return v.unasked(b) })
	timed := slices.DeleteFunc(slices.Clone(asked), func(b trust.Blocker) bool { return !givenTime(b) })
	sentences := Waiting(slices.DeleteFunc(asked, givenTime), v.Members)
	if len(timed) > 0 {
		sentences = append(sentences, "giving applications time to read the new CA, until "+moment(timed[0].Since.Add(v.Policy.Lead)))
	}
	return strings.Join(sentences, "; ")
}

// givenTime reports whether all that a blocker waits for is the time that applications get
// to read a bundle: they are published to already.
func givenTime(b trust.Blocker) bool { return b.Guard == trust.GuardApplications && !b.Since.IsZero() }

// said is what is said of the count of those who are waited for.
func (c complaint) said(count int) string {
	if count > 1 && c.several != "" {
		return c.several
	}
	return c.one
}

// complaint is what a guard says of peers: of one, and of several.
type complaint struct {
	guard        trust.GuardName
	one, several string
}

// Waiting says in one sentence for each guard and complaint who of the members is waited for.
func Waiting(blockers []trust.Blocker, members []trust.Member) []string {
	var order []complaint
	peers, since := map[complaint][]string{}, map[complaint]time.Time{}
	for _, b := range blockers {
		c := complaint{b.Guard, strings.TrimPrefix(b.What, b.Who+" "), b.Several}
		if _, known := peers[c]; !known {
			order = append(order, c)
		}
		peers[c] = append(peers[c], waitedFor(b, members))
		if first := since[c]; first.IsZero() || !b.Since.IsZero() && b.Since.Before(first) {
			since[c] = b.Since
		}
	}
	out := make([]string, 0, len(order))
	for _, c := range order {
		who, count := byMember(peers[c], members)
		sentence := fmt.Sprintf("waiting for %s (%s: %s", who, c.guard, c.said(count))
		if begin := since[c]; !begin.IsZero() {
			sentence += ", since " + moment(begin)
		}
		out = append(out, sentence+")")
	}
	return out
}

// byMember names the members among those who are waited for, each once, and counts them. The
// roles of a single one follow in brackets.
func byMember(peers []string, members []trust.Member) (who string, count int) {
	roles := map[string][]string{}
	for _, peer := range peers {
		member := peer
		for i := range members {
			if id := string(members[i].ID); strings.HasPrefix(peer, id+" ") {
				member = id
			}
		}
		roles[member] = append(roles[member], strings.TrimPrefix(strings.TrimPrefix(peer, member), " "))
	}
	names := slices.Collect(maps.Keys(roles))
	if len(names) != 1 {
		return some(names), len(names)
	}
	of := slices.DeleteFunc(roles[names[0]], func(role string) bool { return role == "" })
	if len(of) == 0 {
		return names[0], 1
	}
	return names[0] + " [" + some(of) + "]", 1
}

// waitedFor is what a sentence calls the one who stands in the way.
func waitedFor(b trust.Blocker, members []trust.Member) string {
	isOperator := func(m trust.Member) bool {
		return m.Kind == trust.Operator && strings.HasPrefix(b.Who+" ", string(m.ID)+" ")
	}
	switch {
	case b.Guard == trust.GuardRetired:
		return "the " + b.Who
	case b.Guard == trust.GuardRunning:
		return "the end of the " + b.Who
	case slices.ContainsFunc(members, isOperator):
		return "the operator itself"
	default:
		return b.Who
	}
}

// unasked reports whether a sentence is better without a blocker. The operator does not wait for itself,
// and a cross certificate does not matter during a rotation. What only time brings has words of its own.
func (v *view) unasked(b trust.Blocker) bool {
	switch {
	case b.Guard == trust.GuardRetired, b.Guard == trust.GuardCrossUnneeded && len(v.others()) > 0:
		return true
	case b.Guard == trust.GuardLateUnused && len(v.remaining()) > 0:
		return true
	}
	return slices.ContainsFunc(v.Members, func(m trust.Member) bool {
		return m.Kind == trust.Operator && strings.HasPrefix(b.Who+" ", string(m.ID)+" ")
	})
}

// remaining are the restarts that the rotation does not wait for.
func (v *view) remaining() []trust.Load {
	return slices.DeleteFunc(slices.Clone(v.plan.Loads), func(l trust.Load) bool { return !l.MayBeDeferred })
}

// advice says what a person can do. Most of the time that is nothing.
func (v *view) advice(phase Phase, names map[trust.AnchorID]AnchorName) string {
	switch phase {
	case Paused:
		return "reconciliation is paused and certificates keep expiring; to continue, remove the annotation " + v.words.Pause + " from " + v.words.Resource
	case Establishing:
		return v.establishment()
	case AuthorityMissing:
		return "see condition " + v.words.Problem + " for what is wrong with its Secrets"
	case Blocked:
		return v.help()
	case v.words.RestartsPending:
		return v.restartsPending()
	case WaitingForExpiry:
		return v.retirement(names)
	case WaitingForOwner:
		return "nodes no longer trust or present it; " + v.takeOut(names) + ", so that applications stop trusting it"
	case WaitingForUsers:
		return v.holders()
	case WaitingForTrust, WaitingForApplications:
		return v.pinned(names)
	default:
		return ""
	}
}

// establishment says who has still to prove something while there is only one CA, where
// no guard names them, and what a person can do if that lasts.
func (v *view) establishment() string {
	var unproven []string
	for i := range v.Members {
		if m := &v.Members[i]; v.counts(m) && !v.established(m) {
			unproven = append(unproven, string(m.ID))
		}
	}
	if len(unproven) == 0 {
		return "every " + v.words.Node + " has proven that it trusts and presents it; the rest follows by itself"
	}
	advice := fmt.Sprintf(excerpt.Numbered(len(unproven),
		"nothing needs to be done while its pod is starting; if it lasts, check the events and logs of this pod, and what keeps the operator from reaching its port %d",
		"nothing needs to be done while their pods are starting; if it lasts, check the events and logs of these pods, and what keeps the operator from reaching their port %d",
	), v.words.AgentPort)
	if v.waiting(Establishing) != "" {
		return advice
	}
	return "waiting for " + some(unproven) + " to prove that " +
		excerpt.Numbered(len(unproven), "it trusts and presents the CA", "they trust and present it") + "; " + advice
}

// established reports whether a member has proven to trust and to present the target.
func (v *view) established(m *trust.Member) bool {
	return every(m, loadsTrust, v.trustsTarget)*every(m, loadsIdentity, v.presentsTarget) == 1
}

// help says what a person can do for each of those that are waited for in vain.
func (v *view) help() string {
	pods := map[remedy][]string{}
	var order []remedy
	for _, b := range v.overdue() {
		what := v.helpFor(v.waitedFor(b))
		if _, known := pods[what]; !known {
			order = append(order, what)
		}
		if id := string(v.waitedFor(b).ID); !slices.Contains(pods[what], id) {
			pods[what] = append(pods[what], id)
		}
	}
	sentences := make([]string, 0, len(order))
	for _, what := range order {
		sentences = append(sentences, fmt.Sprintf(excerpt.Numbered(len(pods[what]), what.one, what.several), some(pods[what])))
	}
	return "nothing more happens without you: " + strings.Join(sentences, "; ")
}

// remedy is what can be done for one member, and for several, with a place for the names.
type remedy struct{ one, several string }

// helpFor says what can be done for a member.
func (v *view) helpFor(m *trust.Member) remedy {
	holds := func(of func(*trust.Evidence) bool) bool {
		return slices.ContainsFunc(m.Roles, func(r trust.Role) bool { return of(&r.Evidence) })
	}
	if m.Leaving {
		return remedy{
			"check why pod %s does not terminate; once its process no longer runs anywhere, delete the pod by force",
			"check why pods %s do not terminate; once their processes no longer run anywhere, delete the pods by force",
		}
	}
	for _, a := range v.plan.NeedAttention {
		switch {
		case a.Member != m.ID:
		case a.Reason == trust.UnknownClaims:
			return remedy{
				"restore what was lost or replaced in the CA Secrets, or find out who else configures the server of %s",
				"restore what was lost or replaced in the CA Secrets, or find out who else configures the servers of %s",
			}
		default:
			return remedy{
				"restore the Secret of %s, or the key of the CA that issued its certificate",
				"restore the Secrets of %s, or the key of the CA that issued their certificates",
			}
		}
	}
	switch {
	case holds(func(e *trust.Evidence) bool { return e.Process == trust.ProcessUnknown }):
		port := strconv.Itoa(v.words.AgentPort)
		return remedy{
			"check the logs of %s, and what keeps the operator from reaching port " + port + " of this pod",
			"check the logs of %s, and what keeps the operator from reaching port " + port + " of these pods",
		}
	case holds(func(e *trust.Evidence) bool { return len(e.Mounted) > 0 }):
		return remedy{
			"check the events of %s and the kubelet there to see why the latest Secrets are not mounted",
			"check the events of %s and the kubelets there to see why the latest Secrets are not mounted",
		}
	case holds(func(e *trust.Evidence) bool { return len(e.Loading) > 0 }):
		return remedy{
			"check the logs of %s to see why the last reload does not finish" + v.restarting("; to restart it instead, annotate the pod with "),
			"check the logs of %s to see why the last reload does not finish" + v.restarting("; to restart them instead, annotate the pods with "),
		}
	default:
		return remedy{
			"check the logs of %s" + v.restarting("; to restart it, annotate the pod with "),
			"check the logs of %s" + v.restarting("; to restart them, annotate the pods with "),
		}
	}
}

// restartsPending says what those need that load only when they start, and until when.
func (v *view) restartsPending() string {
	state := "clients see only the new CA; " + v.words.Closing + " stop accepting the old one once "
	if len(v.others()) == 0 {
		state = v.words.Keeping + " keep the certificates they were started with until "
	}
	remaining := v.remaining()
	nodes := make([]string, 0, len(remaining))
	var due time.Time
	for _, l := range remaining {
		nodes = append(nodes, string(l.Member))
		if due.IsZero() || !l.Due.IsZero() && l.Due.Before(due) {
			due = l.Due
		}
	}
	if len(nodes) == 0 {
		return state + "every " + v.words.Node + " has been restarted once"
	}
	sentence := state + some(nodes) +
		excerpt.Numbered(len(nodes), " has been restarted once, at its next restart for any reason", " have been restarted once, at their next restart for any reason")
	if !due.IsZero() {
		sentence += " or before " + moment(due)
	}
	return sentence + v.restarting("; to do it now, annotate the "+excerpt.Numbered(len(nodes), "pod", "pods")+" with ")
}

// restarting is how a person asks for a restart; empty where nothing asks for that.
func (v *view) restarting(asking string) string {
	if v.words.Restart == "" {
		return ""
	}
	return asking + v.words.Restart
}

// pinned names those that a Classic rotation leaves behind.
func (v *view) pinned(names map[trust.AnchorID]AnchorName) string {
	byNodes := slices.ContainsFunc(v.Members, func(m trust.Member) bool { return m.Kind == trust.Node && presents(&m) })
	if v.plan.Strategy.Kind != trust.Classic || !byNodes || v.under(names) || !slices.Contains(v.Application.Anchors, v.Issuing) {
		return ""
	}
	begin := v.Application.Since.Add(v.Policy.Lead)
	return fmt.Sprintf("clients that do not trust %s by %s are cut off when the first %s presents it", Label(v.Issuing, names), moment(begin), v.words.Node)
}

// holders names the users whose certificates are still the old authority's.
func (v *view) holders() string {
	var users []string
	for _, m := range v.Members {
		if m.Kind == trust.Holder && m.Published.Identity.Signer != v.target.Key {
			users = append(users, string(m.ID))
		}
	}
	return "certificates of the old CA are still held by " + some(users) + "; both CAs are accepted until these certificates have been replaced or have expired"
}

// retirement says until when and why the policy keeps the old CAs, and how to stop
// trusting them earlier. Distrust applies to keys: a certificate with the key of its
// successor stays until it expires.
func (v *view) retirement(names map[trust.AnchorID]AnchorName) string {
	others := v.others()
	kept := make([]string, 0, len(others))
	for _, a := range others {
		kept = append(kept, fmt.Sprintf("%s %s until it expires at %s", Label(a.ID, names), v.stays(a), moment(a.NotAfter)))
	}
	slices.Sort(kept)
	sentence := strings.Join(kept, ", and ")
	sameKey := func(a *trust.Anchor) bool { return a.Key == v.target.Key }
	distrustable := v.labels(slices.DeleteFunc(slices.Clone(others), sameKey), names)
	its, it := excerpt.Numbered(len(others), "its", "their"), excerpt.Numbered(len(others), "it", "them")
	because := ", because clients may still present " + its + " certificates. To stop trusting "
	switch {
	case len(v.entries(names)) > 0:
		return sentence + because + it + " earlier, " + v.takeOut(names)
	case len(distrustable) > 0:
		return sentence + because + some(distrustable) + " earlier, annotate Secret " + v.distrusting() +
			" with keyturn.dev/distrust=now. Nodes then reject clients that still present such certificates"
	default:
		return sentence + ". The new CA has the same key, so nothing needs to be done"
	}
}

// distrusting is the Secret whose annotation distrusts the old CAs: where an issuer has the keys, there is none with a key.
func (v *view) distrusting() string {
	if v.Policy.Issuance == trust.Offered {
		return v.subject.CertSecret
	}
	return v.subject.KeySecret
}

// stays says what is true of an anchor until it expires. Nodes are not given every
// certificate of an old key, and no node has one where no listener uses TLS.
func (v *view) stays(a *trust.Anchor) string {
	if v.publishes(a, mainOf) || v.publishes(a, lateOf) {
		return "stays trusted"
	}
	return "is not trusted by any node, and is kept"
}

// takeOut says what the owner of the authority can do about what is to go.
func (v *view) takeOut(names map[trust.AnchorID]AnchorName) string {
	if entries := v.entries(names); len(entries) > 0 {
		return "remove " + some(entries)
	}
	return "remove its entry from Secret " + v.subject.CertSecret
}

// entries are where the owner of the authority keeps what is to go.
func (v *view) entries(names map[trust.AnchorID]AnchorName) []string {
	var entries []string
	for _, a := range v.others() {
		if entry := names[a.ID].Entry; entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// urgency names the end that sets a deadline, if anything relies on it.
func (v *view) urgency(phase Phase, names map[trust.AnchorID]AnchorName) string {
	if !v.Now.Before(v.plan.Deadline) || phase == WaitingForExpiry || phase == WaitingForOwner || phase == Retiring {
		return ""
	}
	for _, a := range v.others() {
		if a.NotAfter.Equal(v.plan.Deadline) {
			return fmt.Sprintf("deadline %s, when %s expires", moment(a.NotAfter), Label(a.ID, names))
		}
	}
	return "deadline " + moment(v.plan.Deadline)
}

// moment is how people read a time: to the second, in UTC.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
