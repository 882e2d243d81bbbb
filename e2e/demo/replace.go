package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// replacedWithin is how long the replacement of one key may take.
const replacedWithin = time.Minute

// replace replaces the keys of both authorities while clients of every kind work:
// those that pinned the old one, too. OpenSSL watches with the old cluster CA only.
func (d demo) replace(ctx context.Context) (act, error) {
	folder, err := os.MkdirTemp("", "keyturn-demo")
	if err != nil {
		return act{}, fmt.Errorf("making a folder for OpenSSL: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // it holds certificates only
	load, err := d.clients(ctx)
	if err != nil {
		return act{}, err
	}
	played := act{name: replacements, title: "The keys of both CAs replaced under load"}
	application, err := d.kafka.Account(ctx, applicationName)
	err = errors.Join(err, d.witness(ctx, load, folder))
	for _, authority := range []harness.Authority{harness.ClusterCA, harness.ClientsCA} {
		if err != nil {
			break
		}
		var took time.Duration
		took, err = d.turn(ctx, load, authority)
		played.figures = append(played.figures, report.AtMost("key of the "+string(authority)+" replaced", took.Seconds(), replacedWithin.Seconds(), "s",
			"from the request by annotation until the condition of the Kafka says that nothing is left to be done now"))
	}
	load.SetPhase("after")
	if err == nil {
		err = d.untilRead(ctx, application)
	}
	played.result = load.Finish(ctx)
	after, problem := d.kafka.Account(ctx, applicationName)
	err = errors.Join(err, problem)
	restarted := 0
	for _, node := range played.result.Nodes {
		restarted += node.Restarts
	}
	var refused uint64
	for _, watch := range played.result.Watches {
		refused += watch.Fresh().Refused
	}
	played.figures = append(played.figures, tally(application, after)...)
	played.figures = append(played.figures, harness.GapFigure(played.result, maxGap),
		report.AtMost("restarts", float64(restarted), 0, "restarts", "new pods and new containers"),
		report.AtMost("refusals of OpenSSL with the old cluster CA only", float64(refused), 0, "connections", "one openssl s_client to each node each second"))
	return played, err
}

// witness adds OpenSSL with what signs now, and nothing else.
func (d demo) witness(ctx context.Context, load *harness.Load, folder string) error {
	opened, err := d.kafka.Target(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	signer, err := d.kafka.Signer(ctx, harness.ClusterCA)
	if err != nil {
		return err
	}
	watch, err := harness.Watchers{Folder: folder, Target: opened}.Only("openssl, the old CA only", "tls", signer.Certificate())
	if err != nil {
		return err
	}
	return load.Watch(watch)
}

// turn replaces the key of one authority.
func (d demo) turn(ctx context.Context, load *harness.Load, authority harness.Authority) (time.Duration, error) {
	signer, err := d.kafka.Signer(ctx, authority)
	if err != nil {
		return 0, err
	}
	stop := load.MarkTrust(ctx, d.kafka, authority, func(told string, _ harness.Trust) { d.journal.Say("  %s", told) })
	load.SetPhase("before the " + string(authority))
	err = harness.Let(ctx, harness.Quiet)
	begun := time.Now()
	err = errors.Join(err, d.journal.Step(fmt.Sprintf("the key of the %s was replaced", authority), func() error {
		load.SetPhase("replacing the key of the " + string(authority))
		begun = time.Now()
		if err := d.kafka.Replace(ctx, authority); err != nil {
			return err
		}
		told, err := d.kafka.UntilTurned(ctx, authority, []*x509.Certificate{signer.Certificate()}, harness.SettledPhases()...)
		if err == nil {
			d.journal.Say("  %s", told)
		}
		return err
	}))
	return time.Since(begun), errors.Join(err, stop())
}
