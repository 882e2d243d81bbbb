package model_test

import (
	"testing"
	"time"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/user/model"
)

func TestTheWarningAboutTheClockIsReplacedWhenItDiffersInTheOtherDirection(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	warned, isNew := model.WithClock(kafkav1.KafkaUserStatus{}, time.Hour, now)
	if !isNew {
		t.Fatal("there is no warning")
	}
	if _, isNew := model.WithClock(warned, 2*time.Hour, now); isNew {
		t.Error("the same is written again")
	}
	other, isNew := model.WithClock(warned, -time.Hour, now)
	if !isNew || len(other.Conditions) != len(warned.Conditions) {
		t.Errorf("the conditions are %+v", other.Conditions)
	}
}
