package agent

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// publish writes the publication into a plain directory.
func publish(t *testing.T, directory string, p publication.Publication) {
	t.Helper()
	data, err := p.Encode()
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, agent.PublicationKey), data, ownerOnly)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestMountLagIsThatOfThePublicationsAfterTheStart(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	o := newObserver(mount.NewReader(mount.Paths{Node: directory, ClusterTrust: directory, ClientsTrust: directory, Config: directory, Pod: directory}))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		publication publication.Publication
		isNew       bool
		lag         time.Duration
	}{
		{"what is found at the start", publication.Publication{Revision: 3, PublishedAt: now.Add(-time.Hour)}, true, 0},
		{"the same again", publication.Publication{Revision: 3, PublishedAt: now.Add(-time.Hour)}, false, 0},
		{"a new one", publication.Publication{Revision: 4, PublishedAt: now.Add(-2 * time.Second)}, true, 2 * time.Second},
		{"an older one", publication.Publication{Revision: 2, PublishedAt: now.Add(-time.Minute)}, false, 2 * time.Second},
		{"one without a time", publication.Publication{Revision: 5}, true, 0},
		{"one by a clock that is ahead", publication.Publication{Revision: 6, PublishedAt: now.Add(time.Second)}, true, 0},
	} {
		publish(t, directory, c.publication)
		_, isNew := o.look(now)
		if isNew != c.isNew || o.MountLag() != c.lag {
			t.Errorf("%s: new = %t, lag %s; want %t, %s", c.name, isNew, o.MountLag(), c.isNew, c.lag)
		}
	}
}

func TestReportsLeaveOutCertificatesThatThereIsNoRoomFor(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	o := newObserver(mount.NewReader(mount.Paths{Node: directory, ClusterTrust: directory, ClientsTrust: directory, Config: directory, Pod: directory}))
	roles := map[publication.Role]publication.RoleReport{}
	for i := range 10 {
		cert := &x509.Certificate{Raw: bytes.Repeat([]byte{byte(i)}, 16<<10)}
		o.remember([]*x509.Certificate{cert})
		roles[publication.Role(fmt.Sprintf("tls%d-%d", i, 9100+i))] = publication.RoleReport{Presents: pki.FingerprintOf(cert).String()}
	}
	o.Started(1, time.Time{}, roles)
	data, err := json.Marshal(o.TLS())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(o.TLS().Certificates); got == 0 || got == len(roles) || len(data) > publication.MaxAnswer {
		t.Errorf("%d bytes with %d certificates, want at most %d and some", len(data), got, publication.MaxAnswer)
	}
}
