package authority_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
)

// annotates sets an annotation on any of the two Secrets.
func annotates(stored *authority.Stored, annotation, value string) {
	annotations := map[string]string{annotation: value}
	for key, old := range stored.Annotations {
		if key != annotation {
			annotations[key] = old
		}
	}
	stored.Annotations = annotations
}

func onKey(annotation, value string) func(w *world) {
	return func(w *world) { annotates(&w.in.KeySecret, annotation, value) }
}

func onCert(annotation, value string) func(w *world) {
	return func(w *world) { annotates(&w.in.CertSecret, annotation, value) }
}

func TestARequestWithoutEffectStaysAndIsNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ask func(w *world)
		// named are what the warning has to say.
		named []string
	}{
		"a new key, in other words": {
			onKey("strimzi.io/force-replace", "yes"), []string{"Secret my-cluster-ca: ", `"yes"`, `set it to "true"`},
		},
		"a new certificate, in other words": {
			onCert("strimzi.io/force-renew", "yes"), []string{"Secret my-cluster-ca-cert: ", `"yes"`, `set it to "true"`},
		},
		"an abort, in other words": {
			onKey("keyturn.dev/abort-replace", "yes"), []string{"Secret my-cluster-ca: ", `"yes"`, `set it to "true"`},
		},
		"a new key, with no value": {
			onKey("strimzi.io/force-replace", ""), []string{"Secret my-cluster-ca: ", `""`, `set it to "true"`},
		},
		"distrust, in other words": {
			onKey("keyturn.dev/distrust", "true"), []string{"Secret my-cluster-ca: ", `"true"`, `set it to "now"`},
		},
		"distrust on the other Secret": {
			onCert("keyturn.dev/distrust", "now"),
			[]string{"Secret my-cluster-ca-cert: ", "nothing was done", "annotate Secret my-cluster-ca with keyturn.dev/distrust=now"},
		},
		"a new key on the other Secret": {
			onCert("strimzi.io/force-replace", "true"),
			[]string{"Secret my-cluster-ca-cert: ", "annotate Secret my-cluster-ca with strimzi.io/force-replace=true"},
		},
		"a new certificate on the other Secret": {
			onKey("strimzi.io/force-renew", "true"),
			[]string{"Secret my-cluster-ca: ", "annotate Secret my-cluster-ca-cert with strimzi.io/force-renew=true"},
		},
		"a misspelled name": {
			onKey("strimzi.io/force-replce", "true"),
			[]string{"Secret my-cluster-ca: ", "not known", "strimzi.io/force-replace=true on Secret my-cluster-ca,"},
		},
		"a misspelled name of the operator's own": {
			onKey("keyturn.dev/distrusts", "now"),
			[]string{"Secret my-cluster-ca: ", "not known", "keyturn.dev/distrust=now on Secret my-cluster-ca"},
		},
		"another prefix": {
			onKey("strimzi.io/distrust", "now"), []string{"Secret my-cluster-ca: ", "not known", "keyturn.dev/distrust=now on Secret my-cluster-ca"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			tc.ask(w)

			o := w.step()

			if removed := slices.Concat(o.settled.Key.RemoveAnnotations, o.settled.Cert.RemoveAnnotations); len(removed) > 0 {
				t.Errorf("removed as if it had been served: %v", removed)
			}
			if o.Pending != nil || o.Distrust || len(o.Transitions) > 0 {
				t.Errorf("it has an effect: %v", o.Transitions)
			}
			warnings := authority.Misasked(w.in)
			if len(warnings) != 1 {
				t.Fatalf("warnings %q, want one", warnings)
			}
			for _, want := range tc.named {
				if !strings.Contains(warnings[0].String(), want) {
					t.Errorf("%q does not say %q", warnings[0], want)
				}
			}
		})
	}
}

func TestWhatIsNoMistakeIsNotNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world){
		"a request that is made":              onKey("strimzi.io/force-replace", "True"),
		"a request that says no":              onKey("strimzi.io/force-replace", "false"),
		"one that says no on the other":       onCert("strimzi.io/force-replace", "false"),
		"distrust":                            onKey("keyturn.dev/distrust", "Now"),
		"what the operator remembers":         onCert(authority.TemplateAnnotation, "{}"),
		"an annotation of somebody else's":    onKey("example.com/force-replace", "yes"),
		"another annotation of Strimzi's own": onCert("strimzi.io/ca-cert-hash", "0"),
	}
	for name, ask := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			ask(w)
			if warnings := authority.Misasked(w.in); len(warnings) > 0 {
				t.Errorf("warnings %q", warnings)
			}
		})
	}
}
