package certmanager

import (
	"crypto/sha256"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/issuer"
)

// Memory is what the issuers of a process remember. What is forgotten when the operator is restarted is found out again: a
// certificate is renewed once more, and a Secret that two Certificates name is seen in the hands of the other.
type Memory struct {
	mu sync.Mutex
	// last are the renewals that were requested, by Certificate.
	last map[types.NamespacedName]renewed
	// rivals are the names of other Certificates for which a Secret was written, by the Certificate that it is for.
	rivals map[types.NamespacedName]string
	// seen is what each Secret was when it was looked at last, by its Certificate.
	seen map[types.NamespacedName]seen
}

// seen is a version of a Secret, and the hash of the certificate in it: thousands are kept.
type seen struct {
	version     string
	certificate [sha256.Size]byte
}

// renewed is the last renewal of a request.
type renewed struct {
	issuer.Renewal

	at time.Time
}

// NewMemory remembers nothing yet.
func NewMemory() *Memory {
	return &Memory{last: map[types.NamespacedName]renewed{}, rivals: map[types.NamespacedName]string{}, seen: map[types.NamespacedName]seen{}}
}

// renewal is what has become of a renewal that was asked for; with another target it was not.
func (m *Memory) renewal(key types.NamespacedName, renewal issuer.Renewal) issuer.Renewed {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.last[key]
	if !known || last.Target != renewal.Target {
		return issuer.Renewed{}
	}
	return issuer.Renewed{Next: last.at.Add(issuer.RenewalPause), InVain: !last.Present.Equal(renewal.Present)}
}

func (m *Memory) noteRenewal(key types.NamespacedName, renewal issuer.Renewal, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other, last := range m.last {
		if now.Sub(last.at) > issuer.RenewalPause {
			delete(m.last, other)
		}
	}
	m.last[key] = renewed{renewal, now}
}

// rewritten reports whether a Secret has been written since it was looked at last, although its certificate is the same.
func (m *Memory) rewritten(key types.NamespacedName, secret *corev1.Secret) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := seen{secret.ResourceVersion, sha256.Sum256(secret.Data[corev1.TLSCertKey])}
	last, known := m.seen[key]
	m.seen[key] = now
	return known && last.certificate == now.certificate && last.version != now.version
}

// forget drops a Certificate that is gone.
func (m *Memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rivals, key)
	delete(m.seen, key)
}

// rival is the Certificate that was last seen to have the Secret of another; empty without any.
func (m *Memory) rival(key types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rivals[key]
}

// noteRival remembers a rival, or with an empty name forgets it.
func (m *Memory) noteRival(key types.NamespacedName, rival string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rival == "" {
		delete(m.rivals, key)
		return
	}
	m.rivals[key] = rival
}
