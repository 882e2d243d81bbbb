package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/model"
)

func TestReadyIsWrittenAgainWhenTheClockDiffersInTheOtherDirection(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	warned, isNew := model.WithClock(nil, 1, time.Hour, now)
	if !isNew {
		t.Fatal("nothing is reported")
	}
	if _, isNew := model.WithClock(warned, 1, 2*time.Hour, now); isNew {
		t.Error("the same is written again")
	}
	other, isNew := model.WithClock(warned, 1, -time.Hour, now)
	if !isNew || !strings.Contains(other[0].Message, "behind") {
		t.Errorf("the conditions are %+v", other)
	}
}
