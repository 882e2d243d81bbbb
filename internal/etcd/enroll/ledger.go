package enroll

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// Limits of what is issued.
const (
	// MaxPerHolder is how many certificates of one pod in one plane, or of one application, it has at most. Of others it has the keys.
	MaxPerHolder = 25
	// MaxClients is how many certificates of applications and backups it has at most.
	MaxClients = 1500
	// ForFew is how many of them are left to namespaces with fewer than Few.
	ForFew = 500
	// Few see ForFew.
	Few = 50
	// MaxFormer is how many keys it has at most of holders that are gone, or have got many others since.
	MaxFormer = 800
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
	// SPKI is the pki.KeyID of its key, CA the pki.Fingerprint of its issuer. Without a CA, the key is all that is left of it.
	SPKI      string         `json:"spki,omitempty"`
	Plane     contract.Plane `json:"plane,omitempty"`
	CA        string         `json:"ca,omitempty"`
	PodUID    string         `json:"podUID"`
	Namespace string         `json:"namespace,omitempty"`
	IssuedAt  time.Time      `json:"issuedAt,omitzero"`
	NotAfter  time.Time      `json:"notAfter,omitzero"`
	// Unattested is true where another process than the pod may have asked for it, or put it into the pod.
	Unattested bool `json:"unattested,omitempty"`
	// IsAccess is true of an EtcdAccess, and false of a backup.
	IsAccess bool `json:"access,omitempty"`
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

// Record adds a certificate, unless it is there, and drops those that have expired.
func (l Ledger) Record(leaf, ca *x509.Certificate, holder Holder, now time.Time) {
	l.record(leaf, ca, holder, Issued{}, now)
}

// RecordUnattested is Record for a certificate that the pod may not have asked for.
func (l Ledger) RecordUnattested(leaf, ca *x509.Certificate, holder Holder, now time.Time) {
	l.record(leaf, ca, holder, Issued{Unattested: true}, now)
}

// RecordAccess is Record for an EtcdAccess of a namespace. Where there is no room, it replaces an earlier certificate of the same key.
func (l Ledger) RecordAccess(leaf, ca *x509.Certificate, holder Holder, namespace string, now time.Time) {
	l.recordClient(leaf, ca, holder, Issued{Namespace: namespace, IsAccess: true}, now)
}

// RecordBackup is RecordAccess for a backup of a namespace.
func (l Ledger) RecordBackup(leaf, ca *x509.Certificate, holder Holder, namespace string, now time.Time) {
	l.recordClient(leaf, ca, holder, Issued{Namespace: namespace}, now)
}

func (l Ledger) recordClient(leaf, ca *x509.Certificate, holder Holder, entry Issued, now time.Time) {
	if l.crowded(entry.Namespace, now) != "" {
		delete(l, l.earliest(pki.KeyIDOf(leaf)))
	}
	l.record(leaf, ca, holder, entry, now)
}

// record adds a certificate to what is known of its entry.
func (l Ledger) record(leaf, ca *x509.Certificate, holder Holder, entry Issued, now time.Time) {
	serial := serialOf(leaf)
	if _, known := l[serial]; known {
		return
	}
	maps.DeleteFunc(l, func(_ string, issued Issued) bool { return !issued.NotAfter.IsZero() && now.After(issued.NotAfter) })
	entry.SPKI, entry.Plane, entry.CA = pki.KeyIDOf(leaf).String(), holder.Plane, pki.FingerprintOf(ca).String()
	entry.PodUID, entry.IssuedAt, entry.NotAfter = holder.PodUID, leaf.NotBefore.Add(pki.Backdate), leaf.NotAfter
	l[serial] = entry
}

func serialOf(leaf *x509.Certificate) string { return leaf.SerialNumber.Text(serialBase) }

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

// crowded says why an application or a backup of a namespace gets no certificate for another key; empty when it does.
func (l Ledger) crowded(namespace string, now time.Time) string {
	all, own := 0, 0
	for _, issued := range l {
		if issued.CA == "" || issued.Namespace == "" || now.After(issued.NotAfter) {
			continue
		}
		all++
		if issued.Namespace == namespace {
			own++
		}
	}
	switch {
	case all >= MaxClients:
		return fmt.Sprintf("applications and backups have %d certificates of the cluster, and there is no room for another key", all)
	case all >= MaxClients-ForFew && own >= Few:
		return fmt.Sprintf("applications and backups have %d certificates of the cluster, of which namespace %s has %d, and the room that is left is for namespaces with fewer than %d", all, namespace, own, Few)
	default:
		return ""
	}
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

// HasLeaf reports whether a certificate was signed for a holder, by its serial number and its key.
func (l Ledger) HasLeaf(leaf *x509.Certificate, holder Holder) bool {
	issued, known := l[serialOf(leaf)]
	return known && issued.SPKI == pki.KeyIDOf(leaf).String() && (Holder{issued.PodUID, issued.Plane}) == holder
}

// HasMembers reports whether a certificate was signed for any member, which alone have one for peers.
func (l Ledger) HasMembers() bool {
	for _, issued := range l {
		if issued.Plane == contract.PeerPlane {
			return true
		}
	}
	return false
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
