package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/report"
)

// What is promised.
const (
	readyWithin = 45 * time.Second
	maxGap      = 3 * time.Second
	reactWithin = time.Second
)

// ready measures from apply to Ready in a namespace that is empty.
func ready(ctx context.Context, b *bench) (*finding, error) {
	objects, err := b.kube.Example(manifest)
	if err != nil {
		return nil, err
	}
	if err := b.clear(ctx); err != nil {
		return nil, err
	}
	if err := b.install(ctx, nil); err != nil {
		return nil, err
	}
	if err := b.kube.CreateNamespace(ctx, namespace); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := b.kube.Apply(ctx, namespace, objects); err != nil {
		return nil, err
	}
	if err := b.kafka.UntilSettled(ctx); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	return &finding{
		figures: []report.Figure{report.AtMost("apply to Ready, 3 dual-role nodes", took.Seconds(), readyWithin.Seconds(), "s",
			"from the apply of examples/"+manifest+" in an empty namespace, images present, until a watch shows the Kafka Ready with nothing left to restart")},
		notes: b.company(ctx),
	}, nil
}

// company notes what else runs on the cluster and takes its share.
func (b *bench) company(ctx context.Context) []string {
	list := &kafkav1.KafkaList{}
	if err := b.kube.List(ctx, list); err != nil {
		return []string{fmt.Sprintf("other Kafka clusters could not be listed: %v", err)}
	}
	var notes []string
	for i := range list.Items {
		if list.Items[i].Namespace != namespace {
			notes = append(notes, fmt.Sprintf("Kafka %s/%s was there, too", list.Items[i].Namespace, list.Items[i].Name))
		}
	}
	return notes
}

// roll measures what clients notice of a restart of nodes.
func roll(ctx context.Context, b *bench) (*finding, error) {
	load, err := b.kafka.Load(ctx, harness.EveryKind()...)
	if err != nil {
		return nil, err
	}
	load.SetPhase("before")
	err = harness.Let(ctx, harness.Quiet)
	begun := time.Now()
	if err == nil {
		load.SetPhase("restarting")
		err = b.size.roll(b.kafka, ctx)
	}
	took := time.Since(begun)
	load.SetPhase("after")
	if err == nil {
		err = harness.Let(ctx, harness.Quiet)
	}
	result := load.Finish(ctx)
	if err != nil {
		return nil, err
	}
	return &finding{seen: &result, notes: b.company(ctx), figures: []report.Figure{
		harness.GapFigure(result, maxGap),
		report.Observed("rolling "+b.size.rolled, took.Seconds(), "s", "from the annotation until the Kafka is Ready with nothing left to restart"),
	}}, nil
}

// reaction measures from an annotation on a Secret to the first thing that the
// operator does about it.
func reaction(ctx context.Context, b *bench) (*finding, error) {
	const annotation = authorities.ForceRenewAnnotation
	name := authorities.Cluster.CertSecret(cluster)
	secret := &corev1.Secret{ObjectMeta: b.kafka.Meta(name)}
	begun := time.Now()
	if err := b.kube.Annotate(ctx, secret, map[string]string{annotation: "true"}); err != nil {
		return nil, err
	}
	written := secret.ResourceVersion
	err := b.kube.Follow(ctx, &corev1.SecretList{}, func(secrets harness.Objects) (bool, error) {
		object, found := secrets[name]
		return found && object.GetResourceVersion() != written, nil
	}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		return nil, fmt.Errorf("waiting for a reaction to %s: %w", annotation, err)
	}
	took := time.Since(begun)
	return &finding{figures: []report.Figure{report.AtMost("reaction to an annotation on a Secret", took.Seconds(), reactWithin.Seconds(), "s",
		"from the write of "+annotation+" on the cluster CA's Secret until a watch shows the operator's first write to it; the operator was idle before")}}, nil
}
