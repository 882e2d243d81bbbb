package model

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARecordOfNodesSaysWhatWasWritten(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string]RecordedNodes{
		"nodes of both roles": {IDs: []NodeID{0, 1, 7}, Roles: Roles{Controller: true, Broker: true}},
		"brokers":             {IDs: []NodeID{3}, Roles: Roles{Broker: true}},
		"nobody yet":          {Roles: Roles{Broker: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := nodes.Encode()
			must(t, err)
			read, err := ParseRecordedNodes(text)
			must(t, err)
			if diff := cmp.Diff(nodes, read); diff != "" {
				t.Errorf("(-written +read):\n%s", diff)
			}
		})
	}
}

func FuzzParseRecordedNodes(f *testing.F) {
	for _, seed := range []string{`{"ids":[0,1],"roles":["broker"]}`, `{"ids":[-1]}`, `{"ids":[2,2]}`, ``, `null`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := ParseRecordedNodes(text)
		if err != nil {
			if !errors.Is(err, ErrRecordedNodes) {
				t.Errorf("an error of another kind: %s", err)
			}
			return
		}
		for i, id := range nodes.IDs {
			if id < 0 || i > 0 && nodes.IDs[i-1] >= id {
				t.Errorf("%q gives %v", text, nodes.IDs)
			}
		}
	})
}
