package enroll_test

import (
	"encoding/base64"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/pki"
)

const peer, clients = contract.PeerPlane, contract.ClientPlane

func text(t *testing.T, value string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bare is the annotation of a pod that asks in it for both planes.
func bare(value string) map[string]string {
	return map[string]string{contract.RequestAnnotation: value}
}

func TestABareAnnotationHasThePeerRequestFirst(t *testing.T) {
	t.Parallel()
	first, second := requestOf(t, newKey(t)), requestOf(t, newKey(t))
	e := enroll.ExchangeOf(bare(with(t, first, text(t, second))))
	if !e.IsBare || e.IsShared || e.Requests[peer] != first || e.Requests[clients] != second {
		t.Errorf("got %+v", e)
	}
}

func TestOneBareRequestIsForBothPlanes(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"in PEM": requestOf(t, newKey(t)),
		"in DER": base64.StdEncoding.EncodeToString(request(t, newKey(t).Signer())),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := enroll.ExchangeOf(bare(value))
			if !e.IsBare || !e.IsShared || e.Requests[peer] != value || e.Requests[clients] != value {
				t.Errorf("got %+v", e)
			}
			in := asked(t, newKey(t))
			in.Request, in.Other, in.IsShared, in.MayShare = value, value, true, true
			signed(t, in)
		})
	}
}

func TestAnnotationsThatNameAPlaneCountFirst(t *testing.T) {
	t.Parallel()
	annotations := bare(requestOf(t, newKey(t)))
	annotations[peer.RequestAnnotation()] = "a"
	if e := enroll.ExchangeOf(annotations); e.IsBare || e.Requests[peer] != "a" || e.Requests[clients] != "" {
		t.Errorf("got %+v", e)
	}
	if e := enroll.ExchangeOf(nil); e.IsBare || e.IsShared {
		t.Errorf("no annotations are %+v", e)
	}
}

func TestBadBareRequestsAreDeniedInBothPlanes(t *testing.T) {
	t.Parallel()
	good := requestOf(t, newKey(t))
	for name, test := range map[string]struct {
		value string
		want  enroll.Cause
	}{
		"three requests":                   {with(t, twice(t, good), text(t, good)), enroll.NotARequest},
		"a private key beside a request":   {with(t, good, newKey(t).PEM()), enroll.PrivateKey},
		"a cut private key between others": {with(t, with(t, good, newKey(t).PEM()[:60]), text(t, good)), enroll.PrivateKey},
		"no base64":                        {"?", enroll.NotBase64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := enroll.ExchangeOf(bare(test.value))
			for _, plane := range contract.Planes() {
				in := asked(t, newKey(t))
				in.Request, in.IsShared = e.Requests[plane], e.IsShared
				if denied, is := enroll.Decide(in).(enroll.Denied); !is || denied.Cause != test.want {
					t.Errorf("the %s request gets %#v, want %s", plane, enroll.Decide(in), test.want)
				}
			}
		})
	}
}

func TestABareAnswerHasBothChainsAndStays(t *testing.T) {
	t.Parallel()
	annotations := bare(twice(t, requestOf(t, newKey(t))))
	answers := map[contract.Plane]string{peer: signed(t, asked(t, newKey(t))).Answer, clients: signed(t, asked(t, newKey(t))).Answer}
	written := enroll.ExchangeOf(annotations).Annotations(answers)
	chain, err := pki.ParseChain(text(t, written[contract.CertificateAnnotation]))
	if err != nil || len(chain) != 2 || len(written) != 1 {
		t.Fatalf("got %v: %v", written, err)
	}
	annotations[contract.CertificateAnnotation] = written[contract.CertificateAnnotation]
	e := enroll.ExchangeOf(annotations)
	if e.Answers[peer] != answers[peer] || e.Answers[clients] != answers[clients] {
		t.Errorf("the answers are read as %v, want %v", e.Answers, answers)
	}
	if again := e.Annotations(nil); again[contract.CertificateAnnotation] != written[contract.CertificateAnnotation] {
		t.Error("an answer that stays is changed")
	}
	renewed := signed(t, asked(t, newKey(t))).Answer
	e = enroll.ExchangeOf(map[string]string{
		contract.RequestAnnotation:     annotations[contract.RequestAnnotation],
		contract.CertificateAnnotation: e.Annotations(map[contract.Plane]string{clients: renewed})[contract.CertificateAnnotation],
	})
	if e.Answers[peer] != answers[peer] || e.Answers[clients] != renewed {
		t.Error("a renewal in one plane changes the other")
	}
}

func TestABareAnswerIsWrittenForBothPlanesOrNone(t *testing.T) {
	t.Parallel()
	outcomes := map[contract.Plane]enroll.Outcome{peer: enroll.Signed{}, clients: enroll.Denied{Cause: enroll.WeakKey}}
	bareOutcome := enroll.ExchangeOf(bare("?")).Together(outcomes)
	if held, is := bareOutcome[peer].(enroll.Held); !is || held.Cause != enroll.OtherPlane {
		t.Errorf("the peer request gets %#v", bareOutcome[peer])
	}
	if _, is := enroll.ExchangeOf(nil).Together(outcomes)[peer].(enroll.Signed); !is {
		t.Error("planes that are asked for apart wait for each other")
	}
}
