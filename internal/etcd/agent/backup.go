package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount"
	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/enrollment"
	"github.com/keyturn/keyturn/internal/etcd/snapshot"
)

// Backup is a copy of the data of a cluster that is to be made.
type Backup struct {
	// Options are those of an agent; of them, Command and what concerns a server have no effect.
	Options

	// URL is where clients reach the cluster.
	URL string
	// Store receives the copy. It keeps so many, and all if Keep is 0.
	Store snapshot.Store
	Keep  int
}

// Run asks for a certificate for a key that is made here, copies the data of the cluster to the volume, verifies the
// copy, and reports.
func (b Backup) Run(ctx context.Context) error {
	result, err := b.make(ctx)
	if ctx.Err() != nil {
		return &process.ExitError{Code: process.Terminated}
	}
	if err != nil {
		result = contract.BackupResult{Failure: failureOf(err), Message: err.Error()}
		b.Log.Error("The backup failed", "reason", result.Failure, "error", err)
	}
	text, encodeErr := result.Encode()
	if encodeErr != nil {
		return encodeErr
	}
	if err := os.WriteFile(b.ResultPath, text, ownerOnly); err != nil {
		return fmt.Errorf("reporting the result: %w", err)
	}
	return err
}

func (b Backup) make(ctx context.Context) (contract.BackupResult, error) {
	identity, err := b.enrol(ctx)
	if err != nil {
		return contract.BackupResult{}, err
	}
	source, err := admin.TakeSnapshot(ctx, b.URL, identity)
	if err != nil {
		return contract.BackupResult{}, &snapshotError{err}
	}
	defer func() { _ = source.Close() }() // the copy is verified without it
	stored, err := b.Store.Add(source, source.Least, b.Clock.Now())
	if err != nil {
		return contract.BackupResult{}, err
	}
	b.Log.Info("The backup is verified", "path", stored.Path, "revision", stored.Revision, "size", stored.Size)
	if b.Keep > 0 {
		if err := b.Store.Prune(b.Keep, stored); err != nil {
			b.Log.Warn("Removing old backups failed", "error", err)
		}
	}
	return contract.BackupResult{
		Path: stored.Path, Size: stored.Size, SHA256: stored.SHA256, Revision: stored.Revision, Version: source.Version,
	}, nil
}

// snapshotError is one of the way from etcd, and not of the volume.
type snapshotError struct{ error }

func (e *snapshotError) Unwrap() error { return e.error }

func failureOf(err error) contract.BackupFailure {
	_, isOfSnapshot := errors.AsType[*snapshotError](err)
	switch {
	case errors.Is(err, admin.ErrDenied):
		return contract.SnapshotDenied
	case isOfSnapshot, errors.Is(err, snapshot.ErrInterrupted):
		return contract.SnapshotFailed
	case errors.Is(err, snapshot.ErrNotVerified):
		return contract.SnapshotNotVerified
	default:
		return contract.VolumeNotWritable
	}
}

// enrol returns when the operator has signed the key of this pod for a client of the cluster.
func (b Backup) enrol(ctx context.Context) (*tls.Config, error) {
	id, err := loadIdentity(contract.ClientPlane, b.Options)
	if err != nil {
		return nil, err
	}
	e := &enroller{
		Options: b.Options, mounts: mount.NewReader(b.NodeDir, b.PodDir),
		identities: map[contract.Plane]*identity{contract.ClientPlane: id},
	}
	for {
		grant, err := e.stepAsClient(ctx, id)
		if err == nil {
			return clientConfig(id, grant.Anchors[contract.ClientPlane]), nil
		}
		if reason := err.Error(); reason != e.refused {
			e.refused = reason
			b.Log.Info("Waiting", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // Run replaces it
		case <-b.Clock.After(lookPause):
		}
	}
}

// stepAsClient looks at the mounts once, asks for the certificate, and takes it once it is there.
func (e *enroller) stepAsClient(ctx context.Context, id *identity) (enrollment.Grant, error) {
	directories, generation, err := e.mounts.Read()
	if err != nil {
		return enrollment.Grant{}, err
	}
	secret, pod := directories[0], directories[1]
	annotations, err := agent.ParseAnnotations(pod[agent.AnnotationsFile])
	if err != nil {
		return enrollment.Grant{}, err
	}
	e.ask(ctx, annotations, generation)
	grant, err := enrollment.Read(secret, pod)
	if err != nil {
		return enrollment.Grant{}, err
	}
	chain, err := grant.AnswerToClient(annotations[id.plane.CertificateAnnotation()], id.key, e.Clock.Now())
	if err != nil {
		return enrollment.Grant{}, errors.Join(fmt.Errorf("reading the certificate in annotation %s of the pod: %w", id.plane.CertificateAnnotation(), err), e.why)
	}
	return grant, e.present(id, chain)
}

func clientConfig(id *identity, anchors []*x509.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	for _, anchor := range anchors {
		roots.AddCert(anchor)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{id.certificate()}}
}
