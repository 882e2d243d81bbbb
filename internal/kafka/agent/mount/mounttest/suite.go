package mounttest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

// Limits of waiting for what a kubelet does in its own time: it may sync a pod no more
// than once in a minute and a half.
const (
	settleLimit = 5 * time.Minute
	settlePause = 100 * time.Millisecond
)

// Volume is one of the directories that a pod mounts.
type Volume string

// The volumes of the suite: two Secrets, and a ConfigMap.
const (
	Node         Volume = "node"
	ClusterTrust Volume = "cluster-trust"
	Config       Volume = "config"
)

func volumes() []Volume { return []Volume{Node, ClusterTrust, Config} }

func (v Volume) of(mounted stores.Mounted) stores.Directory {
	switch v {
	case Node:
		return mounted.Node
	case ClusterTrust:
		return mounted.ClusterTrust
	default:
		return mounted.Config
	}
}

// Subject is a running pod with its volumes. Only the suite changes their content.
type Subject struct {
	// Store gives the object of a volume other entries, by one write, beside those that it
	// has. One that was deleted is made again, with all that it had.
	Store func(ctx context.Context, volume Volume, entries map[string][]byte) error
	// Delete takes the object away.
	Delete func(ctx context.Context, volume Volume) error
	// Mounted is what a process in the pod finds now.
	Mounted func(ctx context.Context) (stores.Mounted, error)
	// Work lets a kubelet do what there is to do, if it does not by itself.
	Work func(ctx context.Context)
	// Pod says which pod and container run.
	Pod func(ctx context.Context) (Pod, error)
	// Restart ends the container, and returns when the pod has another.
	Restart func(ctx context.Context) error
	// Replace deletes the pod, and returns when another of its name runs.
	Replace func(ctx context.Context) error
}

// Pod is a pod with its container.
type Pod struct {
	UID       string
	Container string
}

// Run checks a kubelet through the life of a pod. It asks for one subject.
func Run(t *testing.T, factory func(t *testing.T) Subject) {
	t.Helper()
	b := &bench{Subject: factory(t)}
	for _, step := range []struct {
		name  string
		check func(*testing.T, *bench)
	}{
		{"what is stored is mounted", storedIsMounted},
		{"a volume that has changed never goes back, and in the end all have", volumesFollow},
		{"entries that are written together are seen together", entriesAreWhole},
		{"a volume keeps its content when its object is gone", goneObjectStays},
		{"an object that is back is mounted again", backIsMounted},
		{"another container of the pod finds what is mounted", containerFindsMounted},
		{"another pod of the name finds what is stored", podFindsStored},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.check(t, b) }) {
			return // each begins where the one before has ended
		}
	}
}

// bench is a subject on which the checks work.
type bench struct {
	Subject
}

// entry is written by the suite, and twin always together with it.
const (
	entry = "suite-entry"
	twin  = "suite-twin"
)

func (b *bench) store(t *testing.T, volume Volume, text string) {
	t.Helper()
	if err := b.Store(t.Context(), volume, map[string][]byte{entry: []byte(text), twin: []byte(text)}); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) look(t *testing.T) stores.Mounted {
	t.Helper()
	mounted, err := b.Mounted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return mounted
}

func (b *bench) pod(t *testing.T) Pod {
	t.Helper()
	pod, err := b.Pod(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// shows waits until the volumes show a text.
func (b *bench) shows(t *testing.T, text string, shown ...Volume) {
	t.Helper()
	b.until(t, func(mounted stores.Mounted) bool {
		for _, volume := range shown {
			if string(volume.of(mounted)[entry]) != text {
				return false
			}
		}
		return true
	})
}

func storedIsMounted(t *testing.T, b *bench) {
	for _, volume := range volumes() {
		b.store(t, volume, "first")
	}
	b.shows(t, "first", volumes()...)
}

func volumesFollow(t *testing.T, b *bench) {
	for _, volume := range volumes() {
		b.store(t, volume, "second")
	}
	turned := map[Volume]bool{}
	b.until(t, func(mounted stores.Mounted) bool {
		for _, volume := range volumes() {
			text := string(volume.of(mounted)[entry])
			if text != "second" && (turned[volume] || text != "first") {
				t.Errorf("%s shows %q, after the newer content: %t", volume, text, turned[volume])
			}
			turned[volume] = turned[volume] || text == "second"
		}
		return turned[Node] && turned[ClusterTrust] && turned[Config]
	})
}

func entriesAreWhole(t *testing.T, b *bench) {
	for _, text := range []string{"third", "fourth", "fifth"} {
		for _, volume := range volumes() {
			b.store(t, volume, text)
		}
		b.until(t, func(mounted stores.Mounted) bool {
			arrived := true
			for _, volume := range volumes() {
				files := volume.of(mounted)
				if !bytes.Equal(files[entry], files[twin]) {
					t.Errorf("%s shows %q beside %q", volume, files[entry], files[twin])
				}
				arrived = arrived && string(files[entry]) == text
			}
			return arrived
		})
	}
}

func goneObjectStays(t *testing.T, b *bench) {
	if err := b.Delete(t.Context(), Node); err != nil {
		t.Fatal(err)
	}
	b.store(t, ClusterTrust, "sixth")
	b.shows(t, "sixth", ClusterTrust)
	b.shows(t, "fifth", Node)
}

func backIsMounted(t *testing.T, b *bench) {
	b.store(t, Node, "seventh")
	b.shows(t, "seventh", Node)
}

func containerFindsMounted(t *testing.T, b *bench) {
	before, mounted := b.pod(t), b.look(t)
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := b.pod(t)
	if after.UID != before.UID || after.Container == before.Container {
		t.Errorf("%+v runs after %+v, want another container of the same pod", after, before)
	}
	found := b.look(t)
	for _, volume := range volumes() {
		if got, want := volume.of(found)[entry], volume.of(mounted)[entry]; !bytes.Equal(got, want) {
			t.Errorf("%s shows %q, want %q as before", volume, got, want)
		}
	}
}

func podFindsStored(t *testing.T, b *bench) {
	before := b.pod(t)
	for _, volume := range volumes() {
		b.store(t, volume, "eighth")
	}
	if err := b.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := b.pod(t); after.UID == before.UID || after.Container == before.Container {
		t.Errorf("%+v runs after %+v, want another pod", after, before)
	}
	found := b.look(t)
	for _, volume := range volumes() {
		if got := volume.of(found)[entry]; string(got) != "eighth" {
			t.Errorf("%s shows %q, want what was stored before the pod was made", volume, got)
		}
	}
}

// until looks again and again.
func (b *bench) until(t *testing.T, holds func(stores.Mounted) bool) {
	t.Helper()
	over := time.NewTimer(settleLimit)
	defer over.Stop()
	tick := time.NewTicker(settlePause)
	defer tick.Stop()
	for {
		b.Work(t.Context())
		mounted, err := b.Mounted(t.Context())
		if err == nil && holds(mounted) {
			return
		}
		select {
		case <-over.C:
			t.Fatalf("not within %s: node %q, cluster-trust %q, config %q, %v", settleLimit,
				mounted.Node[entry], mounted.ClusterTrust[entry], mounted.Config[entry], err)
		case <-tick.C:
		}
	}
}
