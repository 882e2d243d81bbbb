package application

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func at() time.Time { return time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC) }

func mounted(directory string) *files {
	return &files{directory: directory, clock: clocktesting.NewFakePassiveClock(at())}
}

func TestEachConnectionUsesWhatTheDirectoryHoldsThen(t *testing.T) {
	t.Parallel()
	first, second := makeCA(t, "first"), makeCA(t, "second")
	directory := t.TempDir()
	before, after := mutual(t, first, first, "a:9093"), mutual(t, second, second, "b:9093")
	before.mount(t, directory, "..v1")
	f := mounted(directory)
	start, err := f.now()
	if err != nil {
		t.Fatal(err)
	}
	identity := f.identity(start)
	presented := func() string {
		t.Helper()
		certificate, err := identity.Credential(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return certificate.Leaf.Issuer.CommonName
	}
	if got := presented(); got != "first" {
		t.Errorf("it presents a certificate of CA %q at first", got)
	}
	after.mount(t, directory, "..v2")
	trusted, err := identity.Trust(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := presented(); got != "second" || !trusted.Equal(f.last.roots) {
		t.Errorf("after the change it presents a certificate of CA %q", got)
	}
	if nodes := f.Nodes(); len(nodes) != 1 || nodes[0].Host != "b:9093" {
		t.Errorf("fresh connections go to %v, want b:9093", nodes)
	}
	if f.changes != 1 || !f.changedAt.Equal(at()) {
		t.Errorf("%d changes, the last at %s; want one", f.changes, f.changedAt)
	}
}

func TestADirectoryThatCannotBeUsedKeepsNewConnectionsAway(t *testing.T) {
	t.Parallel()
	ca := makeCA(t, "ca")
	good := mutual(t, ca, ca, "a:9093")
	tests := map[string]struct {
		then  secret
		fails string
	}{
		"a certificate was cut off":   {good.with(secret{fileKeystore: half(good[fileKeystore])}), "file ssl.keystore.crt in "},
		"the Secret was emptied":      {secret{}, "file bootstrap.servers in "},
		"the listener lost its TLS":   {good.with(secret{fileProtocol: protocolPlain}), "has another protocol than when the client started: restart the pod"},
		"the certificate was removed": {good.with(secret{fileKeystore: "", fileKey: ""}), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			good.mount(t, directory, "..v1")
			f := mounted(directory)
			start, err := f.now()
			if err != nil {
				t.Fatal(err)
			}
			identity := f.identity(start)
			test.then.mount(t, directory, "..v2")
			_, err = identity.Credential(t.Context())
			if (err != nil) != (test.fails != "") || !strings.Contains(message(err), test.fails) {
				t.Errorf("a new connection fails with %v, want %q", err, test.fails)
			}
			if reveals(message(err), good[fileKey]) {
				t.Errorf("the error reveals key material: %v", err)
			}
			good.mount(t, directory, "..v3")
			if certificate, err := identity.Credential(t.Context()); err != nil || len(certificate.Certificate) != 1 {
				t.Errorf("after the Secret was put right: %v", err)
			}
		})
	}
}

func TestTheSameContentIsNoChange(t *testing.T) {
	t.Parallel()
	ca := makeCA(t, "ca")
	good, directory := mutual(t, ca, ca, "a:9093"), t.TempDir()
	f := mounted(directory)
	if _, err := f.now(); err == nil {
		t.Fatal("an empty directory is a binding")
	}
	for _, version := range []string{"..v1", "..v2"} {
		good.mount(t, directory, version)
		if _, err := f.now(); err != nil {
			t.Fatal(err)
		}
	}
	if f.changes != 0 {
		t.Errorf("%d changes", f.changes)
	}
}

func TestALoginIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	login := secret{
		fileBootstrap: "a:9094", fileProtocol: protocolSASL, fileMechanism: mechanismSCRAM512, fileUser: "u", filePassword: "old",
	}
	login.mount(t, directory, "..v1")
	f := mounted(directory)
	start, err := f.now()
	if err != nil {
		t.Fatal(err)
	}
	identity := f.identity(start)
	login.with(secret{filePassword: "new"}).mount(t, directory, "..v2")
	if got, err := identity.LoginFrom(t.Context()); err != nil || got.Password != "new" || identity.Trust != nil {
		t.Errorf("the password is not the new one: %v", err)
	}
}
