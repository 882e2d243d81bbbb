package enroll

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// Limits of what is issued.
const (
	// MaxIssued is how many certificates a ledger has at most.
	MaxIssued = 2000
	// ForMembers is how many of them applications and backups leave to members.
	ForMembers = 500
	// MaxExposed is how many keys it has at most whose private keys were seen.
	MaxExposed = 500
	// MaxPerHour is how many certificates a pod gets for one plane within an hour. The shortest that a spec allows are
	// renewed nine times.
	MaxPerHour = 20

	rateWindow = time.Hour
	serialBase = 16
)

// Owner is what a certificate is for: the pod of a member or a backup, or an EtcdAccess.
type Owner struct {
	UID string
	// Namespace is that of an application or a backup, and empty for a member.
	Namespace string
}

// Issued is a certificate that was signed for a pod.
type Issued struct {
	// SPKI is the pki.KeyID of its key, CA the pki.Fingerprint of its issuer.
	SPKI      string         `json:"spki,omitempty"`
	Plane     contract.Plane `json:"plane,omitempty"`
	CA        string         `json:"ca,omitempty"`
	PodUID    string         `json:"podUID"`
	Namespace string         `json:"namespace,omitempty"`
	IssuedAt  time.Time      `json:"issuedAt,omitzero"`
	NotAfter  time.Time      `json:"notAfter,omitzero"`
}

// Ledger has the certificates of a cluster that have not expired, by serial number in hex. A key in it belongs to the
// pod and the plane that it was signed for first. Keys whose private keys were seen are in it without an end.
type Ledger map[string]Issued

// ParseLedger reads what Encode has written.
func ParseLedger(data map[string]string) (Ledger, error) {
	ledger := Ledger{}
	for serial, text := range data {
		var issued Issued
		if err := json.Unmarshal([]byte(text), &issued); err != nil {
			return nil, fmt.Errorf("reading the entry of serial number %q: %w", serial, err)
		}
		ledger[serial] = issued
	}
	return ledger, nil
}

// Encode renders one entry for each certificate.
func (l Ledger) Encode() (map[string]string, error) {
	data := map[string]string{}
	for serial, issued := range l {
		text, err := json.Marshal(issued)
		if err != nil {
			return nil, fmt.Errorf("encoding the entry of serial number %s: %w", serial, err)
		}
		data[serial] = string(text)
	}
	return data, nil
}

// Record adds a certificate, unless it is there, and drops those that have expired. Where the ledger is full, it
// replaces an earlier certificate of the same key.
func (l Ledger) Record(leaf, ca *x509.Certificate, holder Holder, now time.Time) {
	serial := leaf.SerialNumber.Text(serialBase)
	if _, known := l[serial]; known {
		return
	}
	for other, issued := range l {
		if !issued.NotAfter.IsZero() && now.After(issued.NotAfter) {
			delete(l, other)
		}
	}
	key := pki.KeyIDOf(leaf)
	if len(l) >= MaxIssued {
		delete(l, l.earliest(key))
	}
	l[serial] = Issued{
		SPKI: key.String(), Plane: holder.Plane, CA: pki.FingerprintOf(ca).String(), PodUID: holder.PodUID,
		IssuedAt: leaf.NotBefore.Add(pki.Backdate), NotAfter: leaf.NotAfter,
	}
}

// RecordClient is Record for an application or a backup: it leaves room for members.
func (l Ledger) RecordClient(leaf, ca *x509.Certificate, holder Holder, now time.Time) {
	if l.valid(now) >= MaxIssued-ForMembers {
		delete(l, l.earliest(pki.KeyIDOf(leaf)))
	}
	l.Record(leaf, ca, holder, now)
}

// earliest is the serial number of the certificate of a key that expires first; empty when there is none.
func (l Ledger) earliest(key pki.KeyID) string {
	first := ""
	for serial, issued := range l {
		if issued.SPKI == key.String() && (first == "" || issued.NotAfter.Before(l[first].NotAfter)) {
			first = serial
		}
	}
	return first
}

// isFull reports whether there is no room for a certificate of a key, where so many may be there.
func (l Ledger) isFull(key pki.KeyID, most int, now time.Time) bool {
	return l.valid(now) >= most && l.earliest(key) == ""
}

// valid is how many certificates have not expired.
func (l Ledger) valid(now time.Time) int {
	valid := 0
	for _, issued := range l {
		if !now.After(issued.NotAfter) {
			valid++
		}
	}
	return valid
}

// limitedUntil is when a holder may get its next certificate; zero when it may now. What a clock that has been set
// back issued in the future does not count.
func (l Ledger) limitedUntil(holder Holder, now time.Time) time.Time {
	var first time.Time
	recent := 0
	for _, issued := range l {
		at := issued.IssuedAt
		if (Holder{issued.PodUID, issued.Plane}) != holder || at.After(now) || now.Sub(at) >= rateWindow {
			continue
		}
		recent++
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if recent < MaxPerHour {
		return time.Time{}
	}
	return first.Add(rateWindow)
}

// HasPod reports whether a certificate was signed for a pod.
func (l Ledger) HasPod(uid string) bool {
	for _, issued := range l {
		if issued.PodUID == uid {
			return true
		}
	}
	return false
}
