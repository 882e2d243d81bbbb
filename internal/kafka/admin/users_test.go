package admin_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire/wiretest"
)

// remembering is one of three brokers, which has the credentials of these users.
func remembering(users ...string) wiretest.Answer {
	naming := naming("b0", "b1", "b2")
	return func(req kmsg.Request) kmsg.Response {
		if _, ok := req.(*kmsg.DescribeUserSCRAMCredentialsRequest); !ok {
			return naming(req)
		}
		resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
		for _, user := range users {
			result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			result.User = user
			result.CredentialInfos = append(result.CredentialInfos, kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{Mechanism: 2, Iterations: 4096})
			resp.Results = append(resp.Results, result)
		}
		return resp
	}
}

func TestAPasswordThatOneBrokerHasForgottenIsMissing(t *testing.T) {
	t.Parallel()
	brokers := []string{"b0:9091"}
	for name, c := range map[string]struct {
		nodes script
		want  bool
	}{
		"all have it":            {script{"b0:9091": remembering("alice"), "b1:9091": remembering("alice"), "b2:9091": remembering("alice")}, true},
		"one has forgotten it":   {script{"b0:9091": remembering("alice"), "b1:9091": remembering("alice"), "b2:9091": remembering()}, false},
		"one does not answer":    {script{"b0:9091": remembering("alice"), "b1:9091": remembering("alice")}, true},
		"only the first answers": {script{"b0:9091": remembering()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := c.nodes.openTo(t, &recorded{}, admin.Options{Brokers: brokers, Leaving: []string{"b1:9091", "b2:9091"}})
			users, err := k.DescribeUsers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := users.Held["alice"].HasPassword; got != c.want {
				t.Errorf("the password is there: %t, want %t", got, c.want)
			}
		})
	}
}
