package model_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestWhatBecomesOfACA(t *testing.T) {
	t.Parallel()
	ca, other, old := pkitest.CA(t, "ca", noon()), pkitest.CA(t, "other", noon()), pkitest.CA(t, "old", noon().AddDate(-2, 0, 0))
	key := map[string][]byte{authority.KeyKey: ca.Key().PEM()}
	cert := map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())}
	const create, certify, use, hold = "model.MakeCA", "model.CertifyCA", "model.UseCA", "model.HoldCA"
	for name, test := range map[string]struct {
		stored     model.StoredCA
		hasMembers bool
		want       string
		reason     model.Reason
	}{
		"there is none":                          {want: create},
		"the operator was cut off":               {stored: model.StoredCA{Key: key}, want: certify},
		"it is complete":                         {stored: model.StoredCA{Key: key, Cert: cert}, hasMembers: true, want: use},
		"it has expired":                         {stored: model.StoredCA{Key: map[string][]byte{authority.KeyKey: old.Key().PEM()}, Cert: map[string][]byte{authority.CertKey: pki.EncodeBundle(old.Certificate())}}, hasMembers: true, want: hold, reason: model.CAExpired},
		"it is lost while members trust it":      {hasMembers: true, want: hold, reason: model.CALost},
		"its certificate is lost":                {stored: model.StoredCA{Key: key}, hasMembers: true, want: hold, reason: model.CALost},
		"its key is lost":                        {stored: model.StoredCA{Cert: cert}, want: hold, reason: model.CALost},
		"its key is another's":                   {stored: model.StoredCA{Key: map[string][]byte{authority.KeyKey: other.Key().PEM()}, Cert: cert}, want: hold, reason: model.CAUnusable},
		"its key is broken and was never signed": {stored: model.StoredCA{Key: map[string][]byte{}}, want: hold, reason: model.CAUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, _ := model.Resolve(three(t), settings())
			act := cluster.DecideCA(contract.PeerPlane, test.stored, test.hasMembers, noon())
			if got := fmt.Sprintf("%T", act); got != test.want {
				t.Fatalf("got %s, want %s", got, test.want)
			}
			if held, is := act.(model.HoldCA); is && (held.Problem.Reason != test.reason || held.Problem.Message == "") {
				t.Errorf("the problem is %+v", held.Problem)
			}
			if made, is := act.(model.MakeCA); is && (made.Spec.Subject.String() != "CN=my-cluster peer-ca v0,O=etcd" || made.Spec.Validity != 43800*time.Hour) {
				t.Errorf("the CA is %s for %s", made.Spec.Subject, made.Spec.Validity)
			}
		})
	}
}
