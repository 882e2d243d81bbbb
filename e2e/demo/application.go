package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe/application"
	"github.com/keyturn/keyturn/internal/report"
)

// applicationName is the Deployment of the example of an application.
const applicationName = "my-application"

// startApplication applies the example of an application, which connects with the Secret of a KafkaAccess.
func (d demo) startApplication(ctx context.Context) error {
	return d.journal.Step("the application of examples/application sends and receives as KafkaUser my-user", func() error {
		if err := d.kafka.ApplyApplication(ctx); err != nil {
			return err
		}
		return d.kube.Follow(ctx, &appsv1.DeploymentList{}, func(deployments harness.Objects) (bool, error) {
			deployment, found := deployments[applicationName].(*appsv1.Deployment)
			return found && harness.Available(deployment), nil
		}, client.InNamespace(namespace))
	})
}

// untilRead waits until the application presents another certificate than before: it has read its mounted files again,
// which the kubelet refreshes.
func (d demo) untilRead(ctx context.Context, before application.Account) error {
	return d.journal.Step("the application has read the reissued certificate from its mounted Secret", func() error {
		return harness.Poll(ctx, func() (bool, error) {
			now, err := d.kafka.Account(ctx, applicationName)
			return err == nil && now.Presented != nil && before.Presented != nil && *now.Presented != *before.Presented, err
		})
	})
}

// tally holds what the application has seen since an earlier account against what is promised.
func tally(before, now application.Account) []report.Figure {
	const how = "the account of the client in deployment/" + applicationName
	return []report.Figure{
		report.AtLeast("records received by the application", float64(now.Received-before.Received), 1, "records", how),
		report.AtMost("records lost by the application", float64(now.Lost-before.Lost), 0, "records", how),
		report.AtMost("records given up by the application", float64(now.GivenUp-before.GivenUp), 0, "records", how),
		report.AtMost("connections of the application refused", float64(now.Refused-before.Refused), 0, "connections", how),
	}
}
