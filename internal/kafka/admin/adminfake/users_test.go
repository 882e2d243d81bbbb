package adminfake_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
)

func TestFakeUsersFulfilTheContract(t *testing.T) {
	t.Parallel()
	admintest.RunUsers(t, func(t *testing.T) admintest.UsersSubject {
		t.Helper()
		gone := adminfake.NewUsers()
		gone.Fail(&admin.UnreachableError{Address: "fake", Err: errors.New("no broker is up")})
		return admintest.UsersSubject{Client: adminfake.NewUsers(), Unreachable: gone}
	})
}
