package enroll

import (
	"crypto/x509"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// Unattested are the annotations with requests that another process than the pod may have written, when it is not
// known who could write them: all but those for keys that were signed for the pod and the plane before.
func Unattested(annotations map[string]string, podUID string, ledger Ledger) []string {
	exchange := ExchangeOf(annotations)
	known := map[contract.Plane]bool{}
	for _, plane := range contract.Planes() {
		request, problem := read(exchange.Requests[plane])
		known[plane] = problem == nil && ledger.has(keyOf(request), Holder{podUID, plane})
	}
	var found []string
	for _, plane := range contract.Planes() {
		if annotations[plane.RequestAnnotation()] != "" && (exchange.IsBare || !known[plane]) {
			found = append(found, plane.RequestAnnotation())
		}
	}
	isKnown := exchange.IsBare && known[contract.PeerPlane] && known[contract.ClientPlane]
	if annotations[contract.RequestAnnotation] != "" && !isKnown {
		found = append(found, contract.RequestAnnotation)
	}
	return found
}

// has reports whether a certificate for a key was signed for a holder.
func (l Ledger) has(key pki.KeyID, holder Holder) bool {
	for _, issued := range l {
		if issued.SPKI == key.String() && (Holder{issued.PodUID, issued.Plane}) == holder {
			return true
		}
	}
	return false
}

// attestedNames are the names in the certificate that a pod has for the key of its request, if the pod was known to ask for
// it. The addresses in its status may be forged while nothing attests them.
func (in Input) attestedNames(request *x509.CertificateRequest) (names pki.SANs, isKnown bool) {
	chain, err := Chain(in.Answer)
	if err != nil {
		return pki.SANs{}, false
	}
	leaf, key := chain[0], keyOf(request)
	issued, isRecorded := in.Ledger[serialOf(leaf)]
	isKnown = isRecorded && !issued.Unattested && issued.SPKI == key.String() && (Holder{issued.PodUID, issued.Plane}) == Holder{in.Pod.UID, in.Plane}
	isKnown = isKnown && pki.KeyIDOf(leaf) == key && pki.HasSubject(leaf, in.subject()) && pki.IssuedBy(leaf, in.CA.Certificate())
	return pki.SANsOf(leaf), isKnown
}
