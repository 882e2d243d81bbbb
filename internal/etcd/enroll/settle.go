package enroll

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Settle keeps the key alone of each certificate whose holder is gone, and of the earliest ones of a holder that has more
// than its share. living are the namespaces of the holders that are left, by their UIDs, empty for members.
func (l Ledger) Settle(living map[string]string) {
	held := map[Holder][]string{}
	for name, issued := range l {
		namespace, lives := living[issued.PodUID]
		switch {
		case issued.CA == "":
		case !lives:
			l.reduce(name)
		default:
			issued.Namespace = namespace
			l[name] = issued
			holder := Holder{issued.PodUID, issued.Plane}
			held[holder] = append(held[holder], name)
		}
	}
	for _, names := range held {
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(l[a].IssuedAt.Compare(l[b].IssuedAt), strings.Compare(a, b)) })
		for _, name := range names[:max(0, len(names)-MaxPerHolder)] {
			l.reduce(name)
		}
	}
	l.yield(MaxFormer, func(name string, entry Issued) bool { return entry.CA == "" && !strings.HasPrefix(name, exposedEntry) })
}

// reduce keeps of a certificate for which key of which holder it was, until it expires.
func (l Ledger) reduce(name string) {
	issued := l[name]
	issued.CA, issued.IssuedAt = "", time.Time{}
	l[name] = issued
}

// yield keeps no more than so many entries of one kind, of each holder the last ones. Namespaces have equal shares, and so
// have the holders in them: none can have those of others dropped.
func (l Ledger) yield(most int, isOfKind func(name string, entry Issued) bool) {
	var names []string
	for name, entry := range l {
		if isOfKind(name, entry) {
			names = append(names, name)
		}
	}
	if len(names) <= most {
		return
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(l[b].NotAfter.Compare(l[a].NotAfter), l[b].IssuedAt.Compare(l[a].IssuedAt), strings.Compare(a, b))
	})
	takeTurns(names, func(name string) string { return l[name].PodUID })
	takeTurns(names, func(name string) string { return l[name].Namespace })
	for _, name := range names[most:] {
		delete(l, name)
	}
}

// takeTurns puts the first of each group before the second of any, and so on, and leaves their order otherwise.
func takeTurns(names []string, groupOf func(name string) string) {
	turn, turns := map[string]int{}, map[string]int{}
	for _, name := range names {
		group := groupOf(name)
		turn[name] = turns[group]
		turns[group]++
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(turn[a], turn[b]) })
}
