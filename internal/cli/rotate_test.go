package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
)

// midway is the record of a replacement that is under way.
func midway(t *testing.T) rotation.Record {
	t.Helper()
	return until(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), rotation.WaitingForLeaves)
}

func TestRotateAsksByAnnotation(t *testing.T) {
	t.Parallel()
	clients := rotationtest.AtRest(3, rotationtest.Clients)
	requested := calm()
	requested.secrets["my-cluster-ca"] = map[string]string{"strimzi.io/force-replace": "true"}
	tests := map[string]struct {
		world  *world
		args   []string
		secret string
		want   map[string]string
	}{
		"a new key is what is meant": {calm(), []string{"--cluster-ca"}, "my-cluster-ca", map[string]string{"strimzi.io/force-replace": "true"}},
		"a new key of the clients CA": {
			calm(), []string{"--clients-ca", "--replace"}, "my-clients-ca", map[string]string{"strimzi.io/force-replace": "true"},
		},
		"a new certificate": {calm(), []string{"--cluster-ca", "--renew"}, "my-cluster-ca-cert", map[string]string{"strimzi.io/force-renew": "true"}},
		"a compromised key": {
			calm(),
			[]string{"--cluster-ca", "--replace", "--distrust"},
			"my-cluster-ca",
			map[string]string{"strimzi.io/force-replace": "true", "keyturn.dev/distrust": "now"},
		},
		"the old key turns out to be compromised": {
			calm(midway(t), clients), []string{"--cluster-ca", "--distrust"}, "my-cluster-ca", map[string]string{"keyturn.dev/distrust": "now"},
		},
		"going back": {calm(midway(t), clients), []string{"--cluster-ca", "--abort"}, "my-cluster-ca", map[string]string{"keyturn.dev/abort-replace": "true"}},
		"a request that is still waiting is withdrawn": {
			requested,
			[]string{"--cluster-ca", "--abort"},
			"my-cluster-ca",
			map[string]string{"strimzi.io/force-replace": "true", "keyturn.dev/abort-replace": "true"},
		},
		"a second key while only Raft clients are left": {
			calm(until(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), authorities.RaftRestartsPending), clients),
			[]string{"--cluster-ca"},
			"my-cluster-ca",
			map[string]string{"strimzi.io/force-replace": "true"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := test.world.build(t)
			out, err := callOn(t.Context(), api, rotateCommand, append([]string{"kafka/my"}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(out, "Asked the operator of kafka/my to ") {
				t.Errorf("it says %q", out)
			}
			if diff := cmp.Diff(test.want, annotationsOf(t, api, test.secret)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The old CA is trusted for long after a replacement, and the next one may have been asked
// for: then it is the last request that a person thinks better of.
func TestAbortWithdrawsWhatWaitsBeforeItGoesBack(t *testing.T) {
	t.Parallel()
	remainder := until(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), authorities.RaftRestartsPending)
	for name, record := range map[string]rotation.Record{
		"no other CA is trusted":                       rotationtest.AtRest(3),
		"the CA before the present one is trusted yet": remainder,
		"a replacement is in progress":                 midway(t),
	} {
		for _, waits := range []string{"true", "false"} {
			t.Run(name+", a request waits: "+waits, func(t *testing.T) {
				t.Parallel()
				w := calm(record, rotationtest.AtRest(3, rotationtest.Clients))
				w.secrets["my-cluster-ca"] = map[string]string{"strimzi.io/force-replace": waits}
				out, err := call(t, w, rotateCommand, "kafka/my", "--cluster-ca", "--abort")
				if withdrawn := strings.Contains(out, " to withdraw the request for a new key of the cluster CA."); withdrawn != (waits == "true") {
					t.Errorf("it is asked to withdraw: %t: %q (%v)", withdrawn, out, err)
				}
				if back := strings.Contains(out, " to go back to the cluster CA"); back && waits == "true" {
					t.Errorf("it is asked to go back, too: %q", out)
				}
			})
		}
	}
}

// Between the two looks of an abort the operator may begin to make the new key: what is
// taken back would be another thing than what the person was told.
func TestAnAbortOfARequestThatIsServedMeanwhileIsRefused(t *testing.T) {
	t.Parallel()
	w := calm()
	w.secrets["my-cluster-ca"] = map[string]string{"strimzi.io/force-replace": "true"}
	w.calls = interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if err := api.Get(ctx, key, obj, opts...); err != nil {
			return err
		}
		seen, secret := obj.(*metav1.PartialObjectMetadata)
		if !secret || seen.Annotations["strimzi.io/force-replace"] == "" {
			return nil
		}
		served := seen.DeepCopy()
		delete(served.Annotations, "strimzi.io/force-replace")
		return api.Patch(ctx, served, client.MergeFrom(seen))
	}}
	api := w.build(t)
	_, err := callOn(t.Context(), api, rotateCommand, "kafka/my", "--cluster-ca", "--abort")
	if _, refused := errors.AsType[refusedError](err); !refused {
		t.Errorf("error %v, want a refusal", err)
	}
	if asked := annotationsOf(t, api, "my-cluster-ca"); asked["keyturn.dev/abort-replace"] != "" {
		t.Errorf("the Secret bears %v", asked)
	}
}

// compromised is the record of a replacement that is under way because a key is
// compromised.
func compromised(t *testing.T) rotation.Record {
	t.Helper()
	return until(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Distrusted), rotation.WaitingForLeaves)
}

func TestRotateOffersToGoBackOnlyWhereThatIsPossible(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		record  rotation.Record
		says    string
		offered bool
	}{
		"a key is being replaced":                    {midway(t), "a rotation of the cluster CA of kafka/my is in progress", true},
		"the key that is replaced is compromised":    {compromised(t), "a rotation of the cluster CA of kafka/my is in progress", false},
		"a certificate was renewed under its key":    {until(t, rotationtest.AtRest(3, rotationtest.Renewed), rotation.WaitingForTrust), "is in progress", false},
		"the cluster is new and has only had one CA": {rotationtest.AtRest(3, rotationtest.BrandNew), "the cluster CA of kafka/my is not yet trusted and used everywhere (Establishing: ", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := call(t, calm(test.record), rotateCommand, "kafka/my", "--cluster-ca")
			if _, refused := errors.AsType[refusedError](err); !refused || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("error %v, want a refusal with %q", err, test.says)
			}
			if offered := strings.Contains(err.Error(), "--abort"); offered != test.offered {
				t.Errorf("it offers to go back: %t: %v", offered, err)
			}
			_, err = call(t, calm(test.record), rotateCommand, "kafka/my", "--cluster-ca", "--abort")
			if accepted := err == nil; accepted != test.offered {
				t.Errorf("to go back: %v", err)
			}
		})
	}
}

func TestACompromisedKeyWaitsForNoRotation(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]rotation.Record{
		"a key is being replaced": midway(t), "the cluster is new": rotationtest.AtRest(3, rotationtest.BrandNew),
	} {
		if _, err := call(t, calm(record), rotateCommand, "kafka/my", "--cluster-ca", "--replace", "--distrust"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRotateSaysWhatItHasAskedFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"a new key":         {[]string{"--cluster-ca"}, "replace the key of the cluster CA"},
		"a new certificate": {[]string{"--clients-ca", "--renew"}, "renew the certificate of the clients CA"},
		"a new key for a compromised one": {
			[]string{"--cluster-ca", "--replace", "--distrust"}, "replace the key of the cluster CA and distrust all its earlier keys",
		},
		"distrust of the old key": {[]string{"--cluster-ca", "--distrust"}, "distrust every key of the cluster CA but the newest"},
		"going back":              {[]string{"--cluster-ca", "--abort"}, "go back to the cluster CA that is being replaced"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := rotateOptions{}
			flags := map[string]*bool{"--clients-ca": &o.clientsCA, "--cluster-ca": &o.clusterCA, "--renew": &o.renew, "--replace": &o.replace, "--distrust": &o.distrust, "--abort": &o.abort}
			for _, arg := range test.args {
				*flags[arg] = true
			}
			if got := o.requested("my").what; got != test.want {
				t.Errorf("it asks for %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhoDistrustsEarlierKeysIsToldWhichCAStaysTrusted(t *testing.T) {
	t.Parallel()
	const says = " stays trusted; if its key is the compromised one, use --replace --distrust."
	for name, c := range map[string]struct {
		args []string
		want bool
	}{
		"earlier keys":         {[]string{"--distrust"}, true},
		"the current key, too": {[]string{"--distrust", "--replace"}, false},
		"the way back":         {[]string{"--abort"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := midway(t)
			out, err := call(t, calm(w, rotationtest.AtRest(3, rotationtest.Clients)), rotateCommand, append([]string{"kafka/my", "--cluster-ca"}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(out, "\n"+rotation.Label(w.Snapshot.Issuing, w.Anchors)+says+"\n"); told != c.want {
				t.Errorf("it is told: %t, want %t, of %q", told, c.want, out)
			}
		})
	}
}

func TestRotateTellsHowToFollowUnderItsOwnName(t *testing.T) {
	t.Parallel()
	out, err := call(t, calm(), rotateCommand, "kafka/my", "--cluster-ca")
	if want := "Follow it with: kubectl keyturn status kafka/my -n kafka --watch\n"; err != nil || !strings.HasSuffix(out, want) {
		t.Errorf("error %v, output %q, want %q", err, out, want)
	}
}

func TestRotateRefuses(t *testing.T) {
	t.Parallel()
	own := calm()
	own.kafka.Spec.ClusterCa = &kafkav1.CertificateAuthority{GenerateCertificateAuthority: new(false)}
	stopped := calm()
	stopped.kafka.Annotations = map[string]string{"strimzi.io/pause-reconciliation": "true"}
	lost := calm()
	delete(lost.secrets, "my-cluster-ca")
	asked := calm()
	asked.secrets["my-cluster-ca"] = map[string]string{"strimzi.io/force-replace": "true"}
	hurried := calm()
	hurried.secrets["my-cluster-ca"] = map[string]string{"strimzi.io/force-replace": "true", "keyturn.dev/distrust": "now"}
	raced := calm()
	raced.calls = interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
		return apierrors.NewConflict(corev1.Resource("secrets"), obj.GetName(), errors.New("it was changed"))
	}}
	sameKey := until(t, rotationtest.AtRest(3, rotationtest.Clients, rotationtest.OfOthers, rotationtest.Renewed), rotation.WaitingForExpiry)
	tests := map[string]struct {
		world *world
		args  []string
		want  string
	}{
		"the CA is the user's":                    {own, []string{"--cluster-ca"}, "is your own"},
		"the Kafka is paused":                     {stopped, []string{"--cluster-ca"}, "is paused"},
		"the key Secret is missing":               {lost, []string{"--cluster-ca"}, "Secret kafka/my-cluster-ca does not exist"},
		"it was asked for already":                {asked, []string{"--cluster-ca"}, "has already been asked to replace the key of the cluster CA"},
		"a rotation is under way":                 {calm(midway(t)), []string{"--cluster-ca"}, "is in progress (WaitingForLeaves: "},
		"the old CA is distrusted":                {calm(compromised(t)), []string{"--cluster-ca", "--abort"}, "cluster-ca v0 (aaaaaaaa), is distrusted because its key is compromised, and cannot be gone back to"},
		"there is nothing to go back to":          {calm(), []string{"--cluster-ca", "--abort"}, "nothing to go back to"},
		"the key to be replaced is compromised":   {hurried, []string{"--cluster-ca", "--abort"}, "nothing to go back to"},
		"there is nothing to distrust":            {calm(), []string{"--cluster-ca", "--distrust"}, "add --replace"},
		"all that is left has the same key":       {calm(sameKey), []string{"--clients-ca", "--distrust"}, "no other key to distrust"},
		"somebody else writes at the same moment": {raced, []string{"--cluster-ca"}, "changed by someone else"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := call(t, test.world, rotateCommand, append([]string{"kafka/my"}, test.args...)...)
			if _, refused := errors.AsType[refusedError](err); !refused {
				t.Fatalf("error %v, want a refusal", err)
			}
			if !strings.Contains(err.Error(), test.want) || !strings.HasSuffix(err.Error(), "; nothing was changed") {
				t.Errorf("it says %q, want %q", err, test.want)
			}
		})
	}
}

func TestRotateNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no argument":               {nil, errNoKafka.Error() + "; also specify --cluster-ca or --clients-ca"},
		"no CA":                     {[]string{"kafka/my"}, "specify --cluster-ca or --clients-ca"},
		"another flag and no CA":    {[]string{"kafka/my", "--renew"}, "specify --cluster-ca or --clients-ca"},
		"no cluster":                {[]string{"--cluster-ca"}, errNoKafka.Error()},
		"another flag without both": {[]string{"--abort"}, errNothing.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := call(t, calm(), rotateCommand, c.args...)
			misuse, misused := errors.AsType[misuseError](err)
			if !misused || misuse.err.Error() != c.want {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestRotateActsOnlyOnWhatItHasSeen(t *testing.T) {
	t.Parallel()
	w := calm()
	w.calls = interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if err := api.Get(ctx, key, obj, opts...); err != nil {
			return err
		}
		seen, secret := obj.(*metav1.PartialObjectMetadata)
		if !secret {
			return nil
		}
		// Somebody writes right after it was read.
		other := seen.DeepCopy()
		other.Labels = map[string]string{"changed": "meanwhile"}
		return api.Patch(ctx, other, client.MergeFrom(seen))
	}}
	api := w.build(t)
	_, err := callOn(t.Context(), api, rotateCommand, "kafka/my", "--cluster-ca")
	if _, refused := errors.AsType[refusedError](err); !refused {
		t.Errorf("error %v, want a refusal", err)
	}
}

func TestRotateTellsOfMissingRights(t *testing.T) {
	t.Parallel()
	w := calm()
	w.calls = interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
		return apierrors.NewForbidden(corev1.Resource("secrets"), obj.GetName(), errors.New("no"))
	}}
	_, err := call(t, w, rotateCommand, "kafka/my", "--cluster-ca")
	if err == nil || !strings.Contains(err.Error(), "you need the right to get and patch Secret my-cluster-ca in namespace") || !apierrors.IsForbidden(err) {
		t.Errorf("error %v, want one that names the rights", err)
	}
}
