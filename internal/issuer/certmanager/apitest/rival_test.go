package apitest

import (
	"strings"
	"testing"
)

func TestAnotherCertificateOfTheSecretIsNamedUntilItIsGone(t *testing.T) {
	t.Parallel()
	for name, template := range map[string]map[string]any{
		"with other labels": {},
		// As in a manifest that was copied.
		"with the same labels and another annotation": {"labels": labelsOfOwner(), "annotations": map[string]any{"a.person/was": "here"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contest(t, template)
		})
	}
}

func labelsOfOwner() map[string]any {
	return map[string]any{"team": "checkout", "strimzi.io/cluster": "my-cluster", "strimzi.io/kind": "Kafka"}
}

func contest(t *testing.T, template map[string]any) {
	t.Helper()
	w := newWorld(t)
	before := w.issued(w.request(node))
	rival := w.object("Certificate", "theirs", map[string]any{
		"secretName": node + "-cm", "commonName": "theirs", "secretTemplate": template,
		"issuerRef": map[string]any{"name": w.options.Issuer.Name, "kind": w.options.Issuer.Kind},
	})
	w.create(rival)
	isNamed := func() bool {
		issued := w.issued(w.request(node))
		if !issued.Chain[0].Equal(before.Chain[0]) {
			t.Fatal("it was issued again")
		}
		return issued.Next != nil && issued.Next.Since.IsZero() &&
			strings.Contains(issued.Next.Why, w.namespace+"/"+node+" and "+w.namespace+"/theirs both name Secret "+node+"-cm") &&
			strings.Contains(issued.Next.Why, "Delete Certificate "+w.namespace+"/theirs")
	}

	w.until("it is noticed", isNamed)
	for range 20 { // whichever labels the Secret has
		if !isNamed() {
			t.Fatal("it is not named any more")
		}
	}

	if err := w.person.Delete(t.Context(), rival); err != nil {
		t.Fatal(err)
	}
	w.until("it is not named any more", func() bool { return w.issued(w.request(node)).Next == nil })
}
