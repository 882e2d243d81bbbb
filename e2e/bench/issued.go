package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// How many users an issuer of cert-manager signs, and what is promised of them.
const (
	adoptedWithin   = 30 * time.Second
	issuedNamespace = namespace + "-issued"
	issuersCA       = "my-ca"
	issuersCACert   = "my-ca-cert"
)

// issued measures how soon certificates are in use that cert-manager has issued, in a cluster of its own. It takes the place
// of the other one: the bed has no room for both.
func issued(ctx context.Context, b *bench) (*finding, error) {
	own := *b
	own.kafka.Namespace = issuedNamespace
	if err := b.clear(ctx); err != nil {
		return nil, err
	}
	if err := own.createOnIssuer(ctx); err != nil {
		return nil, err
	}
	if err := own.createUsers(ctx, b.size.issued); err != nil {
		return nil, err
	}
	issuedAt, adoptedAt, err := own.followAdoption(ctx)
	if err != nil {
		return nil, err
	}
	const how = "from the moment a watch shows tls.crt in the Secrets of all users, until it shows the same certificate as user.crt in all of them"
	found := &finding{notes: b.company(ctx), figures: []report.Figure{
		report.AtMost(fmt.Sprintf("%d certificates of cert-manager adopted", b.size.issued), adoptedAt.Sub(issuedAt).Seconds(), adoptedWithin.Seconds(), "s", how),
	}}
	account := "system:serviceaccount:" + harness.OperatorNamespace + ":keyturn-users-" + issuedNamespace + "-" + cluster
	for who, user := range map[string]string{"user operator": account, "cluster operator": operatorUser} {
		figure, note, err := b.quietly(ctx, who, user)
		if err != nil {
			return nil, err
		}
		found.figures, found.notes = append(found.figures, figure...), append(found.notes, note...)
	}
	return found, b.clear(ctx)
}

// createOnIssuer makes a cluster whose users an issuer of cert-manager signs.
func (b *bench) createOnIssuer(ctx context.Context) error {
	if err := b.kube.CreateNamespace(ctx, issuedNamespace); err != nil {
		return err
	}
	// The chart has Roles in this namespace.
	err := b.install(ctx, map[string]any{
		"featureGates":  []string{"+CertManagerCaType"},
		"userOperators": []map[string]string{{"namespace": issuedNamespace, "cluster": cluster}},
	})
	if err != nil {
		return err
	}
	objects, err := b.kube.Example(manifest)
	if err != nil {
		return err
	}
	err = objects.Set("Kafka", cluster, map[string]any{
		"type": "cert-manager.io", "generateCertificateAuthority": false, "keyAlgorithm": "ECDSA",
		"certManager": map[string]any{
			"issuerRef": map[string]any{"name": "my-issuer", "kind": "Issuer"},
			"caCert":    map[string]any{"secretName": issuersCACert, "certificate": "ca.crt"},
		},
	}, "spec", "clientsCa")
	if err != nil {
		return err
	}
	if err := b.kafka.ApplyIssuer(ctx, issuersCA, issuersCACert); err != nil {
		return err
	}
	if err := b.kube.Apply(ctx, issuedNamespace, objects); err != nil {
		return err
	}
	return b.kafka.UntilSettled(ctx)
}

// followAdoption watches the Secrets of users until all certificates that were issued are in use, and says when all were
// issued, and when all were in use.
func (b *bench) followAdoption(ctx context.Context) (issuedAt, adoptedAt time.Time, err error) {
	err = b.kafka.FollowSecrets(ctx, func(secrets map[string]*corev1.Secret) bool {
		issued, adopted := 0, 0
		for name, secret := range secrets {
			if !strings.HasPrefix(name, "user-") || len(secret.Data[corev1.TLSCertKey]) == 0 {
				continue
			}
			issued++
			if bytes.Equal(secret.Data["user.key"], secret.Data[corev1.TLSPrivateKeyKey]) {
				adopted++
			}
		}
		if issued == b.size.issued && issuedAt.IsZero() {
			issuedAt = time.Now()
		}
		adoptedAt = time.Now()
		return adopted == b.size.issued
	})
	if err != nil {
		return issuedAt, adoptedAt, fmt.Errorf("waiting for the certificates of users: %w", err)
	}
	return issuedAt, adoptedAt, nil
}

// quietly counts what a process of Keyturn writes while nothing changes.
func (b *bench) quietly(ctx context.Context, who, user string) ([]report.Figure, []string, error) {
	counted, err := b.during(ctx, user, b.size.quiet)
	if err != nil {
		return nil, nil, err
	}
	if !counted.known {
		return nil, []string{uncounted(who)}, nil
	}
	return []report.Figure{report.AtMost(
		fmt.Sprintf("%d users of cert-manager, writes of the %s beside its Lease in %s", b.size.issued, who, b.size.quiet), float64(len(counted.writes)), 0, "requests",
		"the API server's audit log, requests of its ServiceAccount after all users were ready",
	)}, nil, nil
}
