package survey_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kafka/survey"
)

// halting is a Kafka that has a quorum, and lists partitions for ever.
type halting struct {
	admin.Client

	closed bool
}

func (*halting) Quorum(context.Context) (admin.Quorum, error) { return admin.Quorum{LeaderID: 1}, nil }

func (*halting) Partitions(ctx context.Context) ([]admin.Partition, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (h *halting) Close() { h.closed = true }

func server(pod string, state int) survey.Question {
	return survey.Server(pod, func(context.Context) (contract.BrokerState, error) { return contract.BrokerState{State: state}, nil })
}

func TestWhatHasNoAnswerInTimeStaysUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kafka, began := &halting{}, time.Now()
		open := func() (admin.Client, error) { return kafka, nil }
		said, err := survey.Ask(t.Context(), open, []survey.Question{survey.Quorum(), survey.Partitions(), server("a", contract.StateRunning)})
		if took := time.Since(began); took != survey.Time || !said.Quorum.Known || said.Partitions.Known || said.Servers["a"] != rollout.ServerRunning {
			t.Errorf("after %s it is known: %+v", took, said)
		}
		unanswered, is := errors.AsType[survey.UnansweredError](err)
		if !is || len(unanswered) != 1 || !errors.Is(unanswered["the partitions"], context.DeadlineExceeded) {
			t.Errorf("unanswered: %v", err)
		}
		if !kafka.closed {
			t.Error("the client is still open")
		}
	})
}

func TestNothingIsKnownOfAKafkaThatCannotBeReached(t *testing.T) {
	t.Parallel()
	broken := errors.New("no address")
	open := func() (admin.Client, error) { return nil, broken }
	said, err := survey.Ask(t.Context(), open, []survey.Question{survey.Topics(), survey.Quorum()})
	unanswered, is := errors.AsType[survey.UnansweredError](err)
	if !is || !errors.Is(unanswered[survey.AboutTopics], broken) || said.Quorum.Known || !slices.Equal(said.Asked, []string{"the quorum", survey.AboutTopics}) {
		t.Errorf("it is known: %+v, %v", said, err)
	}
}

func TestAServerRunsOnceItsAgentSaysSo(t *testing.T) {
	t.Parallel()
	for state, want := range map[int]rollout.ServerState{
		contract.StateRecovery: rollout.ServerRecovering,
		contract.StateRunning:  rollout.ServerRunning,
		contract.StateUnknown:  rollout.ServerUnknown,
		contract.StateStarting: rollout.ServerStarting,
		// A state that a newer agent has is no evidence of a server that runs.
		42: rollout.ServerStarting,
	} {
		open := func() (admin.Client, error) { return &halting{}, nil }
		if said, err := survey.Ask(t.Context(), open, []survey.Question{server("a", state)}); err != nil || said.Servers["a"] != want {
			t.Errorf("state %v is %v, want %v: %v", state, said.Servers["a"], want, err)
		}
	}
}
