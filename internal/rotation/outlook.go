package rotation

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// Outlook says what one kind of client notices of a course.
type Outlook struct {
	// Client names the kind in words.
	Client string `json:"client"`
	// Notices is true when clients of the kind are cut off, or have to do something
	// in time.
	Notices bool   `json:"notices"`
	What    string `json:"what"`
	// Until is when a client that never looks again must have moved; zero when
	// there is no such time.
	Until time.Time `json:"until,omitzero"`
}

// users are clients by what they present.
const users = "presents a certificate of the old clients CA"

// crossMargin is how long before its end a cross certificate is taken off.
const crossMargin = 24 * time.Hour

// outlooks says who would notice a course, and until when pinned clients have time.
func outlooks(r Record, s trust.Snapshot, strategy trust.StrategyKind, w *work) []Outlook {
	v := newView(r.Words, s, trust.Plan{})
	switch {
	case v.target == nil || s.Policy.Paused || len(v.others()) == 0 && len(v.target.Cross) == 0:
		return nil
	case len(v.others()) == 0:
		return []Outlook{v.pinnedOutlook(trust.CrossSigned, w, r.Anchors)} // served by the cross certificate of an old CA that is gone
	}
	switch r.Domain {
	case r.Words.Users:
		return []Outlook{v.userOutlook()}
	case r.Words.Internal:
		return nil
	}
	return append(v.readerOutlooks(r, strategy, w), v.pinnedOutlook(strategy, w, r.Anchors))
}

// pinnedOutlook is about clients that trust what they were given once.
func (v *view) pinnedOutlook(strategy trust.StrategyKind, w *work, names map[trust.AnchorID]AnchorName) Outlook {
	o := Outlook{Client: v.words.Clients.Pinned}
	switch {
	case v.compromised() && strategy == trust.CrossSigned:
		o.Notices, o.What = true, fmt.Sprintf("it is cut off as soon as %ss stop presenting the cross certificate, because the old CA is distrusted", v.words.Node)
	case strategy == trust.CrossSigned:
		o.What, o.Until = fmt.Sprintf("nothing, as long as %ss present the cross certificate%s", v.words.Node, v.words.Clients.Meanwhile), v.crossEnd()
	case v.under(names):
		o.What, o.Until = "nothing, as long as ca.crt holds the old CA as an issuer of the new one", v.firstEnd()
	case strategy == trust.Classic:
		return v.leftBehind(w)
	default:
		o.What, o.Until = "nothing, until the certificate that it trusts expires", v.firstEnd()
	}
	return o
}

// leftBehind is about pinned clients that nothing leads to the new CA.
func (v *view) leftBehind(w *work) Outlook {
	o := Outlook{Client: v.words.Clients.Pinned, Notices: true, What: "it is cut off when the first " + v.words.Node + " presents the new CA, and does not recover by itself"}
	switch {
	case w.switched >= 0:
		o.Until = v.Now.Add(time.Duration(float64(w.switched) * float64(time.Second)))
	case v.anyNodePresents(v.target.Key):
		o.What = "it has been cut off since the first " + v.words.Node + " presented the new CA"
	}
	return o
}

func (v *view) userOutlook() Outlook {
	o := Outlook{Client: users, What: "nothing, as long as the old CA is kept", Until: v.firstEnd()}
	const refused = "it is refused as soon as every node has withdrawn the old CA"
	switch {
	case v.compromised():
		o.Notices, o.What, o.Until = true, refused, time.Time{}
	case slices.ContainsFunc(v.others(), func(a *trust.Anchor) bool { return a.Removed }):
		o.Notices, o.What, o.Until = true, refused+", because it is no longer in the Secret; to keep it, put it there as ca-<its expiry>.crt", time.Time{}
	}
	return o
}

func (v *view) compromised() bool {
	return slices.ContainsFunc(v.others(), func(a *trust.Anchor) bool { return a.Compromised }) ||
		slices.ContainsFunc(v.target.Cross, func(c trust.Cross) bool { return c.Distrusted })
}

// crossEnd is when the first cross certificate is taken off.
func (v *view) crossEnd() time.Time {
	var first time.Time
	for _, c := range v.target.Cross {
		if end := c.NotAfter.Add(-crossMargin); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// firstEnd is when the first anchor that is to go ends.
func (v *view) firstEnd() time.Time {
	var first time.Time
	for _, a := range v.others() {
		if first.IsZero() || a.NotAfter.Before(first) {
			first = a.NotAfter
		}
	}
	return first
}
