package server_test

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/keyturn/keyturn/internal/agent/server"
)

func TestAnswersAreGivenUntilTheProgramHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var ended func() error
	listen := func(ctx context.Context, group *errgroup.Group) error {
		ended = ctx.Err
		group.Go(func() error { <-ctx.Done(); return nil })
		return nil
	}
	err := server.Beside(ctx, listen, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ended()
	})
	if err != nil || ended() == nil {
		t.Errorf("while the program was asked to end: %v; afterwards: %v", err, ended())
	}
}

func TestAProgramThatFailsIsToldBeforeFailedAnswers(t *testing.T) {
	t.Parallel()
	failed, unanswered := errors.New("failed"), errors.New("not answered")
	listen := func(ctx context.Context, group *errgroup.Group) error {
		group.Go(func() error { <-ctx.Done(); return unanswered })
		return nil
	}
	for want, run := range map[error]func(context.Context) error{
		failed:     func(context.Context) error { return failed },
		unanswered: func(context.Context) error { return nil },
	} {
		if err := server.Beside(t.Context(), listen, run); !errors.Is(err, want) {
			t.Errorf("the error is %v, want %v", err, want)
		}
	}
}

func TestNothingRunsWhereNothingIsAnswered(t *testing.T) {
	t.Parallel()
	taken := errors.New("the address is taken")
	err := server.Beside(t.Context(), func(context.Context, *errgroup.Group) error { return taken }, func(context.Context) error {
		t.Error("it runs")
		return nil
	})
	if !errors.Is(err, taken) {
		t.Errorf("the error is %v", err)
	}
}
