package adminfake_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
)

func TestFakeTopicsFulfilTheContract(t *testing.T) {
	t.Parallel()
	admintest.RunTopics(t, func(t *testing.T) admintest.TopicsSubject {
		t.Helper()
		gone := adminfake.NewTopics(1)
		gone.Fail(&admin.UnreachableError{Address: "fake", Err: errors.New("no broker is up")})
		return admintest.TopicsSubject{Client: adminfake.NewTopics(1), Unreachable: gone}
	})
}
