package controller

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keyturn/keyturn/internal/kafka/model"
)

func TestAPoolWhosePodsDoNotFitIntoOneObjectIsRefused(t *testing.T) {
	t.Parallel()
	described := func(pods, size int) []runtime.RawExtension {
		list := make([]runtime.RawExtension, pods)
		for i := range list {
			list[i].Raw = make([]byte, size)
		}
		return list
	}
	c := &observation{}
	c.kafka.Namespace = "kafka"
	if err := c.checkSize(model.Pool{Name: "many"}, described(350, 4000)); err != nil {
		t.Errorf("%d bytes are refused: %v", maxPodSet, err)
	}
	err := c.checkSize(model.Pool{Name: "many"}, described(400, 4000))
	if err == nil || !invalidResource(err) || !strings.Contains(err.Error(), "KafkaNodePool kafka/many") || !strings.Contains(err.Error(), "several pools of at most 350") {
		t.Errorf("the error is %v", err)
	}
}
