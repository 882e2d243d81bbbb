package model

import "testing"

func TestAClaimIsNamedAfterItsNode(t *testing.T) {
	t.Parallel()
	names := Names{Cluster: "my", Namespace: "ns"}
	for claim, want := range map[string]string{
		"data-my-dual-0": "dual", "data-3-my-dual-12": "dual", "data-my-a-b-4": "a-b",
		"my-dual-0": "", "anything": "", "data-your-dual-0": "", "data-my-dual": "", "data-x-my-dual-0": "", "data-my-dual-x": "",
	} {
		if pool, _, ok := names.NodeOfClaim(claim); pool != want || ok != (want != "") {
			t.Errorf("%s belongs to pool %q (%t), want %q", claim, pool, ok, want)
		}
	}
}
