package enroll

import (
	"encoding/base64"
	"encoding/pem"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// Exchange is what the annotations of a pod ask for and have, by plane, as annotations that name a plane have it.
type Exchange struct {
	Requests, Answers map[contract.Plane]string
	// IsBare is true of a pod that has asked in one annotation for both planes, and IsShared if that is one request.
	IsBare, IsShared bool

	bareAnswer string
}

// ExchangeOf reads the annotations of a pod. Those that name a plane count before the one that does not.
func ExchangeOf(annotations map[string]string) Exchange {
	e := Exchange{Requests: map[contract.Plane]string{}, Answers: map[contract.Plane]string{}}
	for _, plane := range contract.Planes() {
		e.Requests[plane] = annotations[plane.RequestAnnotation()]
		e.Answers[plane] = annotations[plane.CertificateAnnotation()]
		e.IsBare = e.IsBare || e.Requests[plane] != ""
	}
	bare := annotations[contract.RequestAnnotation]
	if e.IsBare = bare != "" && !e.IsBare; !e.IsBare {
		return e
	}
	e.bareAnswer = annotations[contract.CertificateAnnotation]
	e.Requests = eachOf(split(bare, isRequest), bare)
	e.IsShared = e.Requests[contract.PeerPlane] == e.Requests[contract.ClientPlane]
	e.Answers = eachOf(split(e.bareAnswer, isLeaf), e.bareAnswer)
	return e
}

// IsAnswered reports whether the answer of a plane is a certificate for the key that is asked for.
func (e Exchange) IsAnswered(plane contract.Plane) bool {
	request, denied := read(e.Requests[plane])
	if denied != nil {
		return false
	}
	chain, err := Chain(e.Answers[plane])
	return err == nil && pki.KeyIDOf(chain[0]) == keyOf(request)
}

// Annotations are what the pod shall have when some of its requests are answered anew.
func (e Exchange) Annotations(signed map[contract.Plane]string) map[string]string {
	answers, joined := map[string]string{}, []byte{}
	for _, plane := range contract.Planes() {
		answer := signed[plane]
		if answer == "" {
			answer = e.Answers[plane]
		}
		answers[plane.CertificateAnnotation()] = answer
		text, _ := decode(answer) // it is our own, or one that stays as it is
		joined = append(joined, text...)
	}
	switch {
	case !e.IsBare:
		return answers
	case len(signed) == 0:
		return map[string]string{contract.CertificateAnnotation: e.bareAnswer}
	default:
		return map[string]string{contract.CertificateAnnotation: base64.StdEncoding.EncodeToString(joined)}
	}
}

// Together holds back what was signed for one plane while the other one gets nothing: both answers are in one
// annotation.
func (e Exchange) Together(outcomes map[contract.Plane]Outcome) map[contract.Plane]Outcome {
	if !e.IsBare {
		return outcomes
	}
	together := map[contract.Plane]Outcome{}
	for plane, outcome := range outcomes {
		for _, other := range outcomes {
			switch other.(type) {
			case Denied, Held:
				if _, isSigned := outcome.(Signed); isSigned {
					outcome = Held{Cause: OtherPlane, Detail: "the request for the other plane is not signed"}
				}
			default:
			}
		}
		together[plane] = outcome
	}
	return together
}

// eachOf gives the planes the two parts of a value, or the whole value to both.
func eachOf(parts []string, whole string) map[contract.Plane]string {
	if len(parts) != len(contract.Planes()) {
		return map[contract.Plane]string{contract.PeerPlane: whole, contract.ClientPlane: whole}
	}
	return map[contract.Plane]string{contract.PeerPlane: parts[0], contract.ClientPlane: parts[1]}
}

// split cuts base64 of PEM before each block that begins a part; nil when it is anything else, or too long to be read.
func split(value string, begins func(*pem.Block) bool) []string {
	if len(value) > maxRequest {
		return nil
	}
	text, err := decode(value)
	if err != nil || hasPrivateKey(text) {
		return nil
	}
	blocks, err := pki.Blocks(text)
	if err != nil {
		return nil
	}
	var parts [][]byte
	for _, block := range blocks {
		if begins(block) {
			parts = append(parts, nil)
		}
		if len(parts) == 0 {
			return nil
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], pem.EncodeToMemory(block)...)
	}
	encoded := make([]string, 0, len(parts))
	for _, part := range parts {
		encoded = append(encoded, base64.StdEncoding.EncodeToString(part))
	}
	return encoded
}

func isRequest(*pem.Block) bool { return true }

func isLeaf(block *pem.Block) bool {
	certificate, err := pki.CertificateOf(block.Bytes)
	return err == nil && !certificate.IsCA
}
