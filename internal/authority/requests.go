package authority

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// request is something that people ask of an authority by an annotation of one of its
// two Secrets.
type request struct {
	annotation string
	// secret is the name of the Secret.
	secret string
	// yes is the value that asks, and no the one that asks for nothing; both in any case
	// of letters. Without a no only the absence of the annotation asks for nothing.
	yes, no string
}

// requests are all that can be asked for.
func (n *Names) requests() []request {
	const yes, no = "true", "false"
	return []request{
		{n.ForceRenew, n.CertSecret, yes, no},
		{n.ForceReplace, n.KeySecret, yes, no},
		{AbortReplaceAnnotation, n.KeySecret, yes, no},
		{DistrustAnnotation, n.KeySecret, DistrustNow, ""},
	}
}

// requestOf finds a request by its annotation.
func (n *Names) requestOf(annotation string) (request, bool) {
	all := n.requests()
	at := slices.IndexFunc(all, func(r request) bool { return r.annotation == annotation })
	if at < 0 {
		return request{}, false
	}
	return all[at], true
}

func (r request) asks(value string) bool   { return strings.EqualFold(value, r.yes) }
func (r request) isIdle(value string) bool { return r.no != "" && strings.EqualFold(value, r.no) }

// text is the request as a person writes it.
func (r request) text() string { return r.annotation + "=" + r.yes }

// secretNamed is the one of the two Secrets that has this name.
func (in Input) secretNamed(name string) Stored {
	if name == in.Names.CertSecret {
		return in.CertSecret
	}
	return in.KeySecret
}

// asks reports whether a request is made where, and as, it counts.
func (in Input) asks(annotation string) bool {
	r, known := in.Names.requestOf(annotation)
	if !known {
		return false
	}
	secret := in.secretNamed(r.secret)
	value, present := secret.Annotations[annotation]
	return secret.Exists && present && r.asks(value)
}

// Remark is a warning about one part of a Secret.
type Remark struct {
	// Secret is its name.
	Secret string
	// Part tells what the warning is about from every other part of the Secret, and an
	// annotation from the same one with another value.
	Part string
	// Text says what is wrong, and what to do.
	Text string
}

// Object is the Secret as people call it.
func (r Remark) Object() string { return "Secret " + r.Secret }

// String returns the remark as one sentence.
func (r Remark) String() string { return r.Object() + ": " + r.Text }

func sortRemarks(remarks []Remark) {
	slices.SortFunc(remarks, func(a, b Remark) int { return strings.Compare(a.String(), b.String()) })
}

// anyPart names an annotation as a part of its object, whatever it says.
func anyPart(annotation string) string { return "metadata.annotations{" + annotation + "}" }

// entryPart names an entry as a part of its Secret.
func entryPart(entry string) string { return "data{" + entry + "}" }

// AnnotationPart names an annotation with this value as a part of its object.
func AnnotationPart(annotation, value string) string {
	return "metadata.annotations{" + annotation + "=" + excerpt.Of(value, excerpt.Value) + "}"
}

// Misasked names the annotations of the Secrets that look like a request and are none. It says what is
// wrong with each, and what to do, sorted by Secret and annotation.
func Misasked(in Input) []Remark {
	var remarks []Remark
	for _, name := range []string{in.Names.KeySecret, in.Names.CertSecret} {
		secret := in.secretNamed(name)
		if !secret.Exists {
			continue
		}
		for _, annotation := range slices.Sorted(maps.Keys(secret.Annotations)) {
			value := excerpt.Of(secret.Annotations[annotation], excerpt.Value)
			if why := in.misasked(name, annotation, value); why != "" {
				remarks = append(remarks, Remark{
					Secret: name, Part: AnnotationPart(annotation, value), Text: "annotation " + annotation + " " + why,
				})
			}
		}
	}
	return remarks
}

// misasked says what is wrong with one annotation of a Secret; nothing of one that counts.
func (in Input) misasked(name, annotation, value string) string {
	r, known := in.Names.requestOf(annotation)
	place := name
	if known {
		place = r.secret
	}
	switch {
	case !known && in.Names.looksLikeRequest(annotation):
		return "is not known and nothing was done about it: correct it if it is misspelled, or remove it; what can be asked for is " + in.listed()
	case !known || r.isIdle(value):
		return ""
	case in.Spec.Source == Outside:
		return in.misaskedOutside(name, r, value)
	case in.Spec.Source == UserProvided && annotation != DistrustAnnotation:
		return "has no effect, because the CA is your own: change its Secrets instead, and raise the generations"
	case place != name:
		return fmt.Sprintf("has no effect on this Secret and nothing was done about it: remove it here and annotate Secret %s with %s", place, r.text())
	case !r.asks(value):
		return fmt.Sprintf("is %q, which has no effect, and nothing was done about it: set it to %q or remove it", value, r.yes)
	default:
		return ""
	}
}

// misaskedOutside says the same of a CA whose issuer has its key: one of users can be distrusted, by its certificate Secret.
func (in Input) misaskedOutside(name string, r request, value string) string {
	if in.Names.Holders == Users && name == in.Names.CertSecret && r.annotation == DistrustAnnotation && r.asks(value) {
		return ""
	}
	return "has no effect, because the CA is that of an issuer: renew or replace it there, and update " + in.Names.Bundle
}

// looksLikeRequest tells what only a person can have meant as a request from what the
// operator and others keep on Secrets.
func (n *Names) looksLikeRequest(annotation string) bool {
	if annotation == TemplateAnnotation {
		return false
	}
	prefix, name, _ := strings.Cut(annotation, "/")
	isName := func(r request) bool { return strings.HasSuffix(r.annotation, "/"+name) }
	shared, _, _ := strings.Cut(n.ForceReplace, "/")
	return prefix == keyturnDomain || prefix == shared &&
		(strings.HasPrefix(name, "force-") || slices.ContainsFunc(n.requests(), isName))
}

// listed are the requests that an authority knows, with their Secrets.
func (in Input) listed() string {
	var all []string
	for _, r := range in.Names.requests() {
		if in.Spec.Source == Generated || in.Spec.Source == "" || in.Spec.Source == UserProvided && r.annotation == DistrustAnnotation {
			all = append(all, r.text()+" on Secret "+r.secret)
		}
	}
	return strings.Join(all, ", ")
}

// requestState is how far a request has come.
type requestState struct {
	annotation string
	// open is true while it is not served.
	open bool
}

// settleRequests keeps the annotations of open requests and removes those that were served or say
// themselves that they ask for nothing. An unknown request was not served and stays.
func (d *Desired) settleRequests(names *Names, stored Stored, states ...requestState) {
	for _, s := range states {
		value, present := stored.Annotations[s.annotation]
		r, _ := names.requestOf(s.annotation)
		switch {
		case !stored.Exists || !present:
		case s.open || !r.asks(value) && !r.isIdle(value):
			d.Annotations[s.annotation] = value
		default:
			d.RemoveAnnotations = append(d.RemoveAnnotations, s.annotation)
		}
	}
	slices.Sort(d.RemoveAnnotations)
}
