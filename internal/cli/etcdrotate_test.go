package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// etcdRotating is the condition with what a rotation waits for; without a message no CA is rotated.
func etcdRotating(message string) []metav1.Condition {
	status := metav1.ConditionFalse
	if message != "" {
		status = metav1.ConditionTrue
	}
	return []metav1.Condition{{Type: etcdv1beta2.ConditionRotatingCAs, Status: status, Reason: "Rotating", Message: message}}
}

// etcdCAs is an EtcdCluster, with the Secrets of its CAs where the operator is.
func etcdCAs(rotating string, annotations map[string]string) []client.Object {
	objects := []client.Object{&etcdv1beta2.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-cluster"}, Status: etcdv1beta2.EtcdClusterStatus{Conditions: etcdRotating(rotating)},
	}}
	for _, name := range []string{"client-ca", "client-ca-cert", "peer-ca", "peer-ca-cert"} {
		objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "keyturn", Name: "kafka.my-cluster-" + name, Annotations: annotations}})
	}
	return objects
}

// asked are the annotations of the Secrets of CAs, as NAME ANNOTATION=VALUE.
func askedOfEtcd(t *testing.T, api client.Client) map[string]string {
	t.Helper()
	secrets, asked := &corev1.SecretList{}, map[string]string{}
	if err := api.List(t.Context(), secrets, client.InNamespace("keyturn")); err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		for annotation, value := range secrets.Items[i].Annotations {
			asked[strings.TrimPrefix(secrets.Items[i].Name, "kafka.my-cluster-")+" "+strings.TrimPrefix(annotation, "keyturn.dev/")] = value
		}
	}
	return asked
}

func TestRotateAsksForCAsOfEtcdByAnnotation(t *testing.T) {
	t.Parallel()
	const under = "The client CA is being renewed or replaced."
	for name, test := range map[string]struct {
		rotating string
		args     []string
		want     map[string]string
		says     string
	}{
		"another key":             {"", []string{"--client-ca"}, map[string]string{"client-ca force-replace": "true"}, "replace the key of the client CA."},
		"other keys of both":      {"", []string{"--client-ca", "--peer-ca", "--replace"}, map[string]string{"client-ca force-replace": "true", "peer-ca force-replace": "true"}, "replace the key of the client CA and to replace the key of the peer CA."},
		"another certificate":     {"", []string{"--peer-ca", "--renew"}, map[string]string{"peer-ca-cert force-renew": "true"}, "renew the certificate of the peer CA."},
		"a compromised key":       {"", []string{"--peer-ca", "--replace", "--distrust"}, map[string]string{"peer-ca force-replace": "true", "peer-ca distrust": "now"}, "replace the key of the peer CA and distrust all earlier keys of the peer CA."},
		"the old key is":          {under, []string{"--client-ca", "--distrust"}, map[string]string{"client-ca distrust": "now"}, "distrust all earlier keys of the client CA."},
		"going back":              {under, []string{"--client-ca", "--abort"}, map[string]string{"client-ca abort-replace": "true"}, "go back to the client CA that is being replaced."},
		"applications have moved": {under, []string{"--client-ca", "--clients-moved"}, map[string]string{"client-ca clients-moved": at().UTC().Format(time.RFC3339)}, "wait no longer for applications."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(etcdCAs(test.rotating, nil)...).Build()
			out, err := callOn(t.Context(), api, rotateCommand, append([]string{"etcd/my-cluster"}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(out, "Asked the operator of etcd/my-cluster to "+test.says+"\n") {
				t.Errorf("it says %q", out)
			}
			if diff := cmp.Diff(test.want, askedOfEtcd(t, api)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A request may wait for a signature of the operator's CA.
func TestAbortTakesBackARequestForAnotherKeyOfEtcdThatWaits(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(etcdCAs("", map[string]string{"keyturn.dev/force-replace": "true"})...).Build()
	if out, err := callOn(t.Context(), api, rotateCommand, "etcd/my-cluster", "--client-ca", "--abort"); err != nil {
		t.Errorf("error %v, it says %q", err, out)
	}
	if asked := askedOfEtcd(t, api); asked["client-ca abort-replace"] != "true" || asked["peer-ca abort-replace"] != "" {
		t.Errorf("it has asked for %v", asked)
	}
}

func TestRotateRefusesForEtcdWhatWouldBeInVain(t *testing.T) {
	t.Parallel()
	static := etcdCAs("", nil)
	static[0].(*etcdv1beta2.EtcdCluster).Spec.TLS = &etcdv1beta2.TLSPolicy{Static: &etcdv1beta2.StaticTLS{}}
	for name, test := range map[string]struct {
		objects []client.Object
		args    []string
		want    string
	}{
		"certificates of people":                    {static, []string{"--client-ca"}, "no CA of the operator"},
		"nothing waits for applications":            {etcdCAs("", nil), []string{"--client-ca", "--clients-moved"}, "nothing waits for applications"},
		"another rotation goes on":                  {etcdCAs("The peer CA is being renewed or replaced.", nil), []string{"--client-ca"}, "status etcd/my-cluster -n kafka"},
		"there is nothing to go back to":            {etcdCAs("", nil), []string{"--peer-ca", "--abort"}, "nothing to go back to"},
		"it was asked for":                          {etcdCAs("", map[string]string{"keyturn.dev/force-replace": "true"}), []string{"--client-ca"}, "has already been asked to replace the key of the client CA"},
		"the Secret is lost":                        {etcdCAs("", nil)[:1], []string{"--client-ca"}, "Secret keyturn/kafka.my-cluster-client-ca does not exist"},
		"the operator is in a namespace of its own": {etcdCAs("", nil), []string{"--client-ca", "--operator-namespace", "other"}, "Secret other/kafka.my-cluster-client-ca does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(test.objects...).Build()
			_, err := callOn(t.Context(), api, rotateCommand, append([]string{"etcd/my-cluster"}, test.args...)...)
			if _, isRefused := errors.AsType[refusedError](err); !isRefused || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want a refusal with %q", err, test.want)
			}
		})
	}
}

// A refusal says that nothing was changed.
func TestARequestForBothCAsOfEtcdIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	objects := etcdCAs("", nil)
	objects[3].SetAnnotations(map[string]string{"keyturn.dev/force-replace": "true"})
	api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(objects...).Build()
	_, err := callOn(t.Context(), api, rotateCommand, "etcd/my-cluster", "--client-ca", "--peer-ca")
	if _, isRefused := errors.AsType[refusedError](err); !isRefused {
		t.Errorf("error %v, want a refusal", err)
	}
	if diff := cmp.Diff(map[string]string{"peer-ca force-replace": "true"}, askedOfEtcd(t, api)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRotateWantsFlagsOfTheKindOfCluster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want error
	}{
		"no CA of etcd":                       {[]string{"etcd/my-cluster"}, errWhichEtcdCA},
		"a CA of Kafka":                       {[]string{"etcd/my-cluster", "--cluster-ca"}, errNotOfEtcd},
		"a CA of etcd":                        {[]string{"kafka/my", "--peer-ca"}, errNotOfKafka},
		"applications that moved, and a key":  {[]string{"etcd/my-cluster", "--client-ca", "--clients-moved", "--replace"}, errMovedAlone},
		"applications that moved of the peer": {[]string{"etcd/my-cluster", "--client-ca", "--peer-ca", "--clients-moved"}, errMovedAlone},
		"two ways":                            {[]string{"etcd/my-cluster", "--client-ca", "--renew", "--abort"}, errOneWay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := call(t, calm(), rotateCommand, test.args...)
			if misuse, isMisuse := errors.AsType[misuseError](err); !isMisuse || !errors.Is(misuse.err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

// followed has the operator do something at each look at the cluster, and returns what a watch of a replacement tells.
func followed(t *testing.T, do []func(etcd *etcdv1beta2.EtcdCluster) (isTaken bool), output string, flags ...string) (string, error) {
	t.Helper()
	clock, look, isTaken := clocktesting.NewFakeClock(at()), -1, false
	api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(etcdCAs("", nil)...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := api.Get(ctx, key, object, options...); err != nil {
				return err
			}
			switch seen := object.(type) {
			case *etcdv1beta2.EtcdCluster:
				if look++; look > patience {
					return errEndless
				}
				clock.Step(5 * time.Second)
				isTaken = do[min(look, len(do)-1)](seen)
			case *metav1.PartialObjectMetadata:
				if isTaken {
					seen.Annotations = nil
				}
			}
			return nil
		},
	}).Build()
	return callAt(t.Context(), api, clock, rotateCommand, append([]string{"etcd/my-cluster", "--client-ca", "--peer-ca", "--watch", "-o", output}, flags...)...)
}

func saying(message string, isTaken bool) func(*etcdv1beta2.EtcdCluster) bool {
	return func(etcd *etcdv1beta2.EtcdCluster) bool {
		etcd.Status.Conditions = etcdRotating(message)
		return isTaken
	}
}

func TestAWatchFollowsTheCAsOfEtcdToTheEnd(t *testing.T) {
	t.Parallel()
	scenes := []func(*etcdv1beta2.EtcdCluster) bool{
		saying("", false), saying("", false), saying("", true), // the status is written after the Secrets
		saying("The client CA is being renewed or replaced. Waiting for: my-cluster-0.", true), saying("The client CA is being renewed or replaced. Waiting for: my-cluster-0.", true),
		saying("", true),
	}
	out, err := followed(t, scenes, "table")
	if err != nil || strings.Count(out, "Waiting for: my-cluster-0.") != 1 || !strings.HasSuffix(out, "Done after 25s.\n") {
		t.Errorf("error %v, it says\n%s", err, out)
	}
	out, err = followed(t, scenes, "json")
	var outcome etcdOutcome
	if err = errors.Join(err, json.Unmarshal([]byte(out), &outcome)); err != nil || !outcome.Completed || len(outcome.Asked) != 2 {
		t.Errorf("error %v, the outcome is %+v", err, outcome)
	}
	renewed := []func(*etcdv1beta2.EtcdCluster) bool{saying("", false), saying("The peer CA is being renewed or replaced.", true)}
	if out, err := followed(t, renewed, "table", "--renew"); err != nil || !strings.HasSuffix(out, "Done after 5s.\n") {
		t.Errorf("of a renewal, error %v, it says\n%s", err, out)
	}
	if _, err := followed(t, []func(*etcdv1beta2.EtcdCluster) bool{saying("", true)}, "table"); !errors.Is(err, errUnservedByEtcd) {
		t.Errorf("of a request that is not served the error is %v", err)
	}
}
