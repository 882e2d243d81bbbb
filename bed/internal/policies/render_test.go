package policies

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestWhatTheKernelIsTold(t *testing.T) {
	t.Parallel()
	upTo := port(intstr.FromInt32(9090))
	upTo.EndPort = new(int32(9091))
	got := render(decide(world(
		rule(peers(podsOf("shop"), block("10.0.0.0/8", "10.9.0.0/16")), upTo),
		rule(nil, port(intstr.FromInt32(9093))),
		rule(peers(inNamespace("operators", networkingv1.NetworkPolicyPeer{}))),
	)), "eth0")
	want := `table inet keyturn-policies
delete table inet keyturn-policies
table inet keyturn-policies {
  chain to-10-244-0-5 {
    ip saddr 10.244.0.5 accept
    ip saddr 10.0.0.0/8 ip saddr != 10.9.0.0/16 tcp dport 9090-9091 accept
    ip saddr 10.244.0.6/32 tcp dport 9090-9091 accept
    tcp dport 9093 accept
    ip saddr 10.244.0.7/32 accept
    drop
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname "eth0" accept
    ct state established,related accept
    ip daddr 10.244.0.5 goto to-10-244-0-5
  }
}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
