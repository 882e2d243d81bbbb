package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

// How many users are applied at once, and what is promised of them.
const (
	readyWithRSA   = 45 * time.Second
	readyWithECDSA = 6 * time.Second
	maxUsersMiB    = 96
	appliers       = 16
)

// userProcess is the Deployment of the user operator of the bench's cluster, and userAccount its ServiceAccount.
const (
	userProcess = "keyturn-users-" + namespace + "-" + cluster
	userAccount = "system:serviceaccount:" + harness.OperatorNamespace + ":" + userProcess
)

// users measures how long users wait for their certificates, and what many of them cost.
func users(ctx context.Context, b *bench) (*finding, error) {
	if err := b.install(ctx, map[string]any{"userOperators": ofTheCluster()}); err != nil {
		return nil, err
	}
	found := &finding{}
	for _, wave := range []struct {
		algorithm kafkav1.KeyAlgorithm
		count     int
		within    time.Duration
	}{
		{kafkav1.RSA, b.size.some, readyWithRSA},
		{kafkav1.ECDSA, b.size.some, readyWithECDSA},
		{kafkav1.ECDSA, b.size.many, 0},
	} {
		figures, err := b.wave(ctx, wave.algorithm, wave.count, wave.within)
		if err != nil {
			return nil, err
		}
		found.figures = append(found.figures, figures...)
	}
	figures, notes, err := b.quietUsers(ctx)
	if err != nil {
		return nil, err
	}
	found.figures, found.notes = append(found.figures, figures...), append(b.company(ctx), notes...)
	return found, nil
}

// ofTheCluster is a list of the chart with the one operator of the bench's cluster.
func ofTheCluster() []map[string]any {
	return []map[string]any{{
		"namespace": namespace, "cluster": cluster,
		"resources": map[string]any{"requests": map[string]string{"memory": "64Mi"}, "limits": map[string]string{"memory": "256Mi"}},
	}}
}

// wave applies users in place of those that are there, and measures until all are ready. Without a limit the time is
// only observed.
func (b *bench) wave(ctx context.Context, algorithm kafkav1.KeyAlgorithm, count int, within time.Duration) ([]report.Figure, error) {
	if err := b.noUsers(ctx); err != nil {
		return nil, err
	}
	if err := b.signUsersWith(ctx, algorithm); err != nil {
		return nil, err
	}
	before, err := b.leading(ctx, userProcess)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := b.createUsers(ctx, count); err != nil {
		return nil, err
	}
	if err := b.untilReady(ctx, count); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	after, err := b.leading(ctx, userProcess)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d users with %s keys", count, algorithm)
	const how = "from the first create, 16 at a time, until a list shows every KafkaUser Ready"
	const process = "the user operator's own account of /proc/self when all users were ready"
	elapsed, memory := report.Observed(what+" ready", took.Seconds(), "s", how), report.Observed(what+", user operator, resident", after.resident/mebibyte, "MiB", process)
	if within > 0 {
		elapsed = report.AtMost(elapsed.Name, elapsed.Value, within.Seconds(), "s", how)
		memory = report.AtMost(memory.Name, memory.Value, maxUsersMiB, "MiB", process)
	}
	return []report.Figure{elapsed, memory, report.Observed(what+", user operator, CPU", after.cpuSeconds-before.cpuSeconds, "CPU-s", process)}, nil
}

// signUsersWith replaces the key of the clients CA by one of the algorithm, unless it has one.
func (b *bench) signUsersWith(ctx context.Context, algorithm kafkav1.KeyAlgorithm) error {
	has := func() (bool, error) {
		signer, err := b.kafka.Signer(ctx, harness.ClientsCA)
		return err == nil && signer.Key().Params().Algorithm == pki.Algorithm(algorithm), err
	}
	patch := map[string]any{"spec": map[string]any{"clientsCa": map[string]any{"keyAlgorithm": string(algorithm)}}}
	if err := b.kube.MergePatch(ctx, &kafkav1.Kafka{ObjectMeta: b.kafka.Meta(cluster)}, patch); err != nil {
		return err
	}
	if done, err := has(); done || err != nil {
		return err
	}
	if err := b.kafka.UntilSettled(ctx); err != nil { // the operator has seen which algorithm the next key has
		return err
	}
	if err := b.kafka.Replace(ctx, harness.ClientsCA); err != nil {
		return err
	}
	return harness.Poll(ctx, has)
}

// quietUsers counts what the user operator writes while nothing changes: the last of the progress that the Kafka shows is written
// some seconds after all users are ready.
func (b *bench) quietUsers(ctx context.Context) ([]report.Figure, []string, error) {
	if err := b.untilShown(ctx, b.size.many); err != nil {
		return nil, nil, err
	}
	counted, err := b.during(ctx, userAccount, b.size.quiet)
	if err != nil {
		return nil, nil, err
	}
	if !counted.known {
		return nil, []string{uncounted("user operator")}, nil
	}
	const how = "the API server's audit log, requests of the user operator's ServiceAccount in the minute after the Kafka has shown all users as ready"
	return []report.Figure{
		report.AtMost(fmt.Sprintf("%d users, writes beside its Lease in %s", b.size.many, b.size.quiet), float64(len(counted.writes)), 0, "requests", how),
		report.Observed(fmt.Sprintf("%d users, reads in %s", b.size.many, b.size.quiet), float64(counted.reads), "requests", how),
	}, nil, nil
}

func (b *bench) createUsers(ctx context.Context, count int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(appliers)
	for i := range count {
		group.Go(func() error {
			user := &kafkav1.KafkaUser{ObjectMeta: b.kafka.Meta(fmt.Sprintf("user-%05d", i))}
			user.Labels = map[string]string{"strimzi.io/cluster": cluster}
			user.Spec.Authentication = &kafkav1.UserAuthentication{Type: kafkav1.UserTLS}
			return b.kube.Create(ctx, user)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating users: %w", err)
	}
	return nil
}

// untilShown waits until the status of the Kafka has so many users that are ready.
func (b *bench) untilShown(ctx context.Context, count int) error {
	return harness.Poll(ctx, func() (bool, error) {
		kafka := &kafkav1.Kafka{}
		if err := b.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: cluster}, kafka); err != nil {
			return false, fmt.Errorf("reading Kafka %s: %w", cluster, err)
		}
		users := kafka.Status.Users
		return users != nil && users.Total == int32(count) && users.Ready == int32(count), nil
	})
}

// untilReady waits until so many users are ready.
func (b *bench) untilReady(ctx context.Context, count int) error {
	return harness.Poll(ctx, func() (bool, error) {
		list := &kafkav1.KafkaUserList{}
		if err := b.kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return false, fmt.Errorf("listing users: %w", err)
		}
		ready := 0
		for i := range list.Items {
			if isReady(&list.Items[i]) {
				ready++
			}
		}
		return ready == count, nil
	})
}

func isReady(user *kafkav1.KafkaUser) bool {
	return slices.ContainsFunc(user.Status.Conditions, func(c condition.Condition) bool {
		return c.Type == condition.Ready && c.Status == condition.True
	})
}

// noUsers deletes all users and waits until their Secrets are collected.
func (b *bench) noUsers(ctx context.Context) error {
	if err := b.kube.DeleteAllOf(ctx, &kafkav1.KafkaUser{}, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("deleting users: %w", err)
	}
	return harness.Poll(ctx, func() (bool, error) {
		secrets := &corev1.SecretList{}
		ofUsers := client.MatchingLabels{"strimzi.io/kind": kafkav1.KindKafkaUser}
		if err := b.kube.List(ctx, secrets, client.InNamespace(namespace), ofUsers, client.Limit(1)); err != nil {
			return false, fmt.Errorf("listing Secrets of users: %w", err)
		}
		return len(secrets.Items) == 0, nil
	})
}
