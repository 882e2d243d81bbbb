package model

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// separate is a cluster with three controllers and a pool of brokers, built as
// controllers 0 to 2 and brokers 3 to 5.
func separate(brokers int32) Input {
	in := exampleInput()
	in.Pools = []kafkav1.KafkaNodePool{
		examplePool("brokers", 3, kafkav1.RoleBroker),
		examplePool("controllers", 3, kafkav1.RoleController),
	}
	in = built(in, map[string][]NodeID{"controllers": {0, 1, 2}, "brokers": {3, 4, 5}})
	in.Pools[0].Spec.Replicas = brokers
	lowReplication(&in)
	return in
}

func TestAnEvenNumberOfControllersIsWarnedOfWithWhatCanBeDoneAboutIt(t *testing.T) {
	t.Parallel()
	const instead = "; their number is fixed when a cluster is created: create a new cluster with "
	for count, want := range map[int32]string{
		2: "2 controllers are both needed for a majority, so either one's restart stops the cluster" + instead + "3",
		4: "4 controllers tolerate no more failures than 3" + instead + "an odd number",
	} {
		for state, running := range map[string][]NodeID{"a new": nil, "a running": []NodeID{0, 1, 2, 3}[:count]} {
			t.Run(fmt.Sprintf("%d in %s cluster", count, state), func(t *testing.T) {
				t.Parallel()
				in := exampleInput()
				in.Pools = []kafkav1.KafkaNodePool{examplePool("dual", count, kafkav1.RoleController, kafkav1.RoleBroker)}
				lowReplication(&in)
				_, findings := resolved(t, built(in, map[string][]NodeID{"dual": running}))
				if len(findings.Warnings) != 1 || findings.Warnings[0].Message != want {
					t.Errorf("warnings: %v, want %q", findings.Warnings, want)
				}
			})
		}
	}
}

func TestNewPoolsGetIDsInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Pools = []kafkav1.KafkaNodePool{
		examplePool("b", 3, kafkav1.RoleController),
		examplePool("a", 3, kafkav1.RoleBroker),
	}
	cluster, _ := resolved(t, in)
	want := []Node{
		{0, "a", "my-a-0", Roles{Broker: true}},
		{1, "a", "my-a-1", Roles{Broker: true}},
		{2, "a", "my-a-2", Roles{Broker: true}},
		{3, "b", "my-b-3", Roles{Controller: true}},
		{4, "b", "my-b-4", Roles{Controller: true}},
		{5, "b", "my-b-5", Roles{Controller: true}},
	}
	if diff := cmp.Diff(want, cluster.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestPoolsOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	foreign := examplePool("foreign", 5, kafkav1.RoleBroker)
	foreign.Labels[ClusterLabel] = "other"
	elsewhere := examplePool("elsewhere", 5, kafkav1.RoleBroker)
	elsewhere.Namespace = "another"
	in.Pools = append(in.Pools, foreign, elsewhere)
	cluster, _ := resolved(t, in)
	if len(cluster.Pools) != 1 || len(cluster.Nodes) != 3 {
		t.Errorf("pools %v", cluster.Pools)
	}
}

func TestScalingUpKeepsWhatThereIs(t *testing.T) {
	t.Parallel()
	cluster, _ := resolved(t, separate(4))
	if diff := cmp.Diff([]NodeID{3, 4, 5, 6}, idsOf(cluster.Brokers())); diff != "" {
		t.Errorf("brokers (-want +got):\n%s", diff)
	}
	if len(cluster.Leaving) > 0 {
		t.Errorf("leaving: %v", cluster.Leaving)
	}
}

func TestScalingDownNamesWhoLeaves(t *testing.T) {
	t.Parallel()
	cluster, _ := resolved(t, separate(2))
	want := []Leaving{{ID: 5, Pool: "brokers", Pod: "my-brokers-5", What: LeavingNode, Broker: true}}
	if diff := cmp.Diff(want, cluster.Leaving); diff != "" {
		t.Errorf("leaving (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]NodeID{3, 4}, idsOf(cluster.Brokers())); diff != "" {
		t.Errorf("brokers (-want +got):\n%s", diff)
	}
}

func TestAnOccupiedNodeStaysAndIsNamed(t *testing.T) {
	t.Parallel()
	in := separate(1)
	in.Known.Occupied = []NodeID{5}
	cluster, findings := resolved(t, in)
	if diff := cmp.Diff([]NodeID{3, 5}, idsOf(cluster.Brokers())); diff != "" {
		t.Errorf("brokers (-want +got):\n%s", diff)
	}
	if len(cluster.Leaving) != 2 {
		t.Errorf("leaving: %v", cluster.Leaving)
	}
	warned := slices.ContainsFunc(findings.Warnings, func(f Finding) bool {
		return f.Reason == ReasonScaleDownPrevention && strings.Contains(f.Message, "nodes 5 ")
	})
	if !warned {
		t.Errorf("warnings: %v", findings.Warnings)
	}
}

func TestAnnotationsChooseIDs(t *testing.T) {
	t.Parallel()
	up := separate(5)
	up.Pools[0].Annotations = map[string]string{nextNodeIDsAnnotation: "[4-20]"}
	cluster, _ := resolved(t, up)
	if diff := cmp.Diff([]NodeID{3, 4, 5, 6, 7}, idsOf(cluster.Brokers())); diff != "" {
		t.Errorf("brokers after scaling up (-want +got):\n%s", diff)
	}
	down := separate(2)
	down.Pools[0].Annotations = map[string]string{removeNodeIDsAnnotation: "[3]"}
	cluster, _ = resolved(t, down)
	if diff := cmp.Diff([]NodeID{4, 5}, idsOf(cluster.Brokers())); diff != "" {
		t.Errorf("brokers after scaling down (-want +got):\n%s", diff)
	}
}

// Nodes that could not be spared are not even asked to leave.
func TestScalingBelowTheReplicasIsRefusedWhileTheNodesAreStillThere(t *testing.T) {
	t.Parallel()
	in := separate(2)
	in.Kafka.Spec.Kafka.Config["default.replication.factor"] = "3"
	in.Known.Occupied = []NodeID{5}
	if _, findings := Resolve(in); findings.Err() == nil {
		t.Error("no error")
	}
}

// A removed KafkaNodePool takes none of its occupied nodes with it.
func TestTheNodesOfARemovedPoolLeaveOneByOne(t *testing.T) {
	t.Parallel()
	in := separate(3)
	in.Pools = append(in.Pools, examplePool("more", 2, kafkav1.RoleBroker))
	storage := in.Pools[0].Spec.Storage
	in.Known.Pools["old"] = KnownPool{NodeIDs: []NodeID{8, 9}, Roles: Roles{Broker: true}, Storage: &storage}
	in.Known.Occupied = []NodeID{9}
	in.Kafka.Spec.Kafka.JvmOptions = &kafkav1.JvmOptions{Xmx: "3g"}
	cluster, _ := resolved(t, in)
	old, found := cluster.Pool("old")
	if !found || !old.Retired || !slices.Equal(old.NodeIDs, []NodeID{9}) || len(old.Volumes) != 1 {
		t.Errorf("pool: %+v", old)
	}
	if options := cluster.AgentConfig(cluster.Nodes[len(cluster.Nodes)-1]).JavaOptions; !slices.Contains(options, "-Xmx3g") {
		t.Errorf("JVM options of the node that stays: %v", options)
	}
	if len(cluster.Leaving) != 2 || cluster.Leaving[0].ID != 8 || cluster.Leaving[1].ID != 9 {
		t.Errorf("leaving: %v", cluster.Leaving)
	}
	in.Known.Occupied = nil
	cluster, _ = resolved(t, in)
	if _, found := cluster.Pool("old"); found {
		t.Error("the pool is still there")
	}
}

// Two nodes of one id would take each other's place.
func TestIdsThatExistAreTakenWhateverPoolTheyBelongTo(t *testing.T) {
	t.Parallel()
	renamed := func() Input {
		in := separate(2)
		in.Pools[0].Name = "renamed"
		return in
	}
	for name, c := range map[string]struct {
		change func(in *Input)
		want   []NodeID
	}{
		"nodes of the pool under its old name": {func(*Input) {}, []NodeID{6, 7}},
		"a pod, a volume or a Secret of a pool that is gone": {func(in *Input) {
			delete(in.Known.Pools, "brokers")
			in.Known.Taken = map[string][]NodeID{"brokers": {4}}
		}, []NodeID{3, 5}},
		"something that names no pool": {func(in *Input) {
			delete(in.Known.Pools, "brokers")
			in.Known.Taken = map[string][]NodeID{"": {3}}
		}, []NodeID{4, 5}},
		"ids that the user prefers": {func(in *Input) {
			in.Known.Taken = map[string][]NodeID{"other": {9}}
			in.Pools[0].Annotations = map[string]string{nextNodeIDsAnnotation: "[4,9,10]"}
		}, []NodeID{6, 10}},
		"what the pool itself has left behind": {func(in *Input) {
			delete(in.Known.Pools, "brokers")
			in.Known.Taken = map[string][]NodeID{"renamed": {3, 4}}
		}, []NodeID{3, 4}},
		"what the pool and another have left behind": {func(in *Input) {
			delete(in.Known.Pools, "brokers")
			in.Known.Taken = map[string][]NodeID{"renamed": {3, 4}, "brokers": {4}}
		}, []NodeID{3, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := renamed()
			c.change(&in)
			cluster, _ := resolved(t, in)
			var got []NodeID
			for _, node := range cluster.PoolNodes("renamed") {
				got = append(got, node.ID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheNamesOfPodsTellTheirNodes(t *testing.T) {
	t.Parallel()
	names := Names{Cluster: "my"}
	for name, want := range map[string]struct {
		pool string
		id   NodeID
		ok   bool
	}{
		"my-dual-0": {"dual", 0, true}, "my-a-b-12": {"a-b", 12, true},
		"my-dual": {}, "my-0": {}, "your-dual-0": {}, "my-dual-x": {}, "my-dual-01": {}, "my-cluster-ca": {}, "my--1": {},
	} {
		pool, id, ok := names.NodeOf(name)
		if ok != want.ok || ok && (pool != want.pool || id != want.id) {
			t.Errorf("%s gives %s, %s, %t", name, pool, id, ok)
		}
	}
}

// A quorum is static: whatever would change its members is not done, and said.
func TestTheControllersOfARunningClusterStay(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*Input){
		"more replicas":  func(in *Input) { in.Pools[1].Spec.Replicas = 5 },
		"fewer replicas": func(in *Input) { in.Pools[1].Spec.Replicas = 1 },
		"role taken":     func(in *Input) { in.Pools[1].Spec.Roles = []kafkav1.ProcessRole{kafkav1.RoleBroker} },
		"role given": func(in *Input) {
			in.Pools[0].Spec.Roles = []kafkav1.ProcessRole{kafkav1.RoleBroker, kafkav1.RoleController}
		},
		"roles swapped": func(in *Input) { in.Pools[0].Spec.Roles = []kafkav1.ProcessRole{kafkav1.RoleController} },
		"another pool":  func(in *Input) { in.Pools = append(in.Pools, examplePool("new", 2, kafkav1.RoleController)) },
		"other ids wanted": func(in *Input) {
			in.Pools[1].Spec.Replicas = 1
			in.Pools[1].Annotations = map[string]string{removeNodeIDsAnnotation: "[0-1]"}
		},
	}
	for name, change := range cases {
		for _, recorded := range []string{"voters recorded", "voters not recorded"} {
			t.Run(name+", "+recorded, func(t *testing.T) {
				t.Parallel()
				in := separate(3)
				change(&in)
				if recorded == "voters not recorded" {
					in.Known.Voters = nil
				}
				cluster, findings := resolved(t, in)
				if diff := cmp.Diff([]NodeID{0, 1, 2}, idsOf(cluster.Controllers())); diff != "" {
					t.Errorf("controllers (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]NodeID{3, 4, 5}, idsOf(cluster.Brokers())); diff != "" {
					t.Errorf("brokers (-want +got):\n%s", diff)
				}
				if !slices.ContainsFunc(findings.Warnings, func(f Finding) bool { return f.Reason == ReasonControllerSet }) {
					t.Errorf("warnings: %v", findings.Warnings)
				}
			})
		}
	}
}

func TestALostPoolOfControllersStopsEverything(t *testing.T) {
	t.Parallel()
	in := separate(3)
	in.Pools = in.Pools[:1]
	_, findings := Resolve(in)
	if findings.Err() == nil || !strings.Contains(findings.Err().Error(), "put back") {
		t.Errorf("error: %v", findings.Err())
	}
}

// The first pod set has been written and the second has not when the operator
// dies: the next one must build the same quorum.
func TestAnInterruptedCreationGoesOn(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Pools = []kafkav1.KafkaNodePool{
		examplePool("a", 2, kafkav1.RoleController, kafkav1.RoleBroker),
		examplePool("b", 1, kafkav1.RoleController, kafkav1.RoleBroker),
	}
	first, _ := resolved(t, in)
	voters, err := ParseVoters(first.ServerConfig(first.Nodes[0]).Encode())
	must(t, err)
	storage := in.Pools[0].Spec.Storage
	in.Known.Voters = voters
	in.Known.Pools = map[string]KnownPool{"a": {NodeIDs: []NodeID{0, 1}, Roles: Roles{Controller: true, Broker: true}, Storage: &storage}}
	again, findings := resolved(t, in)
	if diff := cmp.Diff(first.Nodes, again.Nodes); diff != "" || len(findings.Warnings) > 0 {
		t.Errorf("nodes (-before +after):\n%s\nwarnings: %v", diff, findings.Warnings)
	}
}

// A controller keeps the broker role while it holds partitions.
func TestTheBrokerRoleLeavesLast(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Pools = append(in.Pools, examplePool("more", 3, kafkav1.RoleBroker))
	in = built(in, map[string][]NodeID{"dual": {0, 1, 2}, "more": {3, 4, 5}})
	in.Pools[0].Spec.Roles = []kafkav1.ProcessRole{kafkav1.RoleController}
	in.Known.Occupied = []NodeID{1}
	cluster, _ := resolved(t, in)
	if len(cluster.Brokers()) != 6 || len(cluster.Leaving) != 3 || cluster.Leaving[0].What != LeavingBrokerRole {
		t.Errorf("brokers %v, leaving %v", cluster.Brokers(), cluster.Leaving)
	}
	in.Known.Occupied = nil
	cluster, _ = resolved(t, in)
	if diff := cmp.Diff([]NodeID{3, 4, 5}, idsOf(cluster.Brokers())); diff != "" {
		t.Errorf("brokers (-want +got):\n%s", diff)
	}
}

func TestReplicasByATypoAreRefusedWithoutAListOfThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas int32
		refused  bool
	}{
		"as many as a pool may have": {kafkav1.MaxReplicas, false},
		"one more":                   {kafkav1.MaxReplicas + 1, true},
		"a million":                  {1_000_000, true},
		"as many as can be written":  {math.MaxInt32, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, findings := Resolve(separate(c.replicas))
			var want []string
			if c.refused {
				want = []string{fmt.Sprintf("spec.replicas is %d: set it to at most 400, and spread more nodes over several pools", c.replicas)}
			}
			got := []string{}
			for _, finding := range findings.Errors {
				got = append(got, finding.Message)
			}
			if !slices.Equal(got, want) {
				t.Errorf("errors %q, want %q", got, want)
			}
			if c.refused && len(cluster.Nodes) != 6 {
				t.Errorf("%d nodes are listed, want those that there are", len(cluster.Nodes))
			}
		})
	}
}

func TestMoreNodesThanOnePassCanLookAfterAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		built, wanted []int
		refused       string
	}{
		"as many as there may be":        {[]int{400, 3}, []int{400, 400, 197}, ""},
		"one more, in pools that may be": {[]int{400, 3}, []int{400, 400, 198}, "its pools ask for 1001 nodes: reduce spec.replicas of its KafkaNodePools to at most 1000 in all"},
		"more that there are already":    {[]int{400, 400, 300}, []int{400, 400, 300}, ""},
		"more than too many":             {[]int{400, 400, 300}, []int{400, 400, 301}, "its pools ask for 1104 nodes"},
		"fewer of too many":              {[]int{400, 400, 300}, []int{400, 400, 290}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, ids, next := exampleInput(), map[string][]NodeID{"controllers": {0, 1, 2}}, NodeID(3)
			in.Pools = []kafkav1.KafkaNodePool{examplePool("controllers", 3, kafkav1.RoleController)}
			lowReplication(&in)
			for i, replicas := range c.wanted {
				pool := fmt.Sprintf("p%d", i)
				in.Pools = append(in.Pools, examplePool(pool, int32(replicas), kafkav1.RoleBroker))
				for ; i < len(c.built) && len(ids[pool]) < c.built[i]; next++ {
					ids[pool] = append(ids[pool], next)
				}
			}
			in = built(in, ids)
			for i := range c.wanted {
				in.Pools[i+1].Spec.Replicas = int32(c.wanted[i])
			}
			cluster, findings := Resolve(in)
			text := fmt.Sprint(findings.Err())
			if c.refused == "" && findings.Err() != nil || !strings.Contains(text, c.refused) {
				t.Errorf("error %s, want %q", text, c.refused)
			}
			if c.refused != "" && len(cluster.Nodes) != int(next) {
				t.Errorf("%d nodes are listed, want the %d that there are", len(cluster.Nodes), next)
			}
		})
	}
}

// Everything that is made for a node takes room. None is made for those of a typing error.
func TestReplicasByATypoTakeNoMemory(t *testing.T) {
	in := separate(1_000_000)
	if got := testing.AllocsPerRun(1, func() { _, _ = Resolve(in) }); got > 10_000 {
		t.Errorf("%.0f blocks are allocated", got)
	}
}

func TestTheSchemaAndTheOperatorAgreeOnTheReplicas(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"config/crd/kafka.strimzi.io_kafkanodepools.yaml", "charts/keyturn/files/crds/kafka.strimzi.io_kafkanodepools.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", path))
		must(t, err)
		_, replicas, found := strings.Cut(string(text), "description: replicas is the number of nodes.")
		field, _, _ := strings.Cut(replicas, "type: integer")
		if want := fmt.Sprintf("maximum: %d\n", kafkav1.MaxReplicas); !found || !strings.Contains(field, want) {
			t.Errorf("%s says %q of replicas, want %q", path, field, want)
		}
	}
}

func TestWhoGivesUpOnlyTheRoleBrokerIsNotSaidToLeave(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Pools = append(in.Pools, examplePool("more", 3, kafkav1.RoleBroker))
	in = built(in, map[string][]NodeID{"dual": {0, 1, 2}, "more": {3, 4, 5}})
	in.Pools[0].Spec.Roles = []kafkav1.ProcessRole{kafkav1.RoleController}
	in.Known.Occupied = []NodeID{0, 1, 2}
	for _, skips := range []string{"false", "true"} {
		in.Kafka.Annotations = map[string]string{skipScaleDownCheckAnnotation: skips}
		_, findings := resolved(t, in)
		at := slices.IndexFunc(findings.Warnings, func(f Finding) bool { return f.Reason == ReasonScaleDownPrevention })
		if at < 0 {
			t.Fatalf("warnings: %v", findings.Warnings)
		}
		said := findings.Warnings[at].Message
		if !strings.HasPrefix(said, "the nodes 0, 1, 2 stay as controllers and give up the role broker ") {
			t.Errorf("it is said: %q", said)
		}
		if asks := strings.Contains(said, "set the annotation"); asks != (skips == "false") {
			t.Errorf("with %s=%s it is said: %q", skipScaleDownCheckAnnotation, skips, said)
		}
	}
}

func TestARunningKafkaIsToldWhichBrokersItWouldLose(t *testing.T) {
	t.Parallel()
	dual := built(exampleInput(), map[string][]NodeID{"dual": {0, 1, 2}})
	dual.Pools[0].Spec.Roles = []kafkav1.ProcessRole{kafkav1.RoleController}
	apart := separate(3)
	apart.Pools = apart.Pools[1:] // the controllers stay
	for name, c := range map[string]struct {
		in      Input
		brokers string
	}{
		"nodes of both roles become controllers":      {dual, "(0, 1, 2)"},
		"the pool of brokers beside controllers goes": {apart, "(3, 4, 5)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, findings := Resolve(c.in)
			if err := findings.Err(); err == nil || !strings.Contains(err.Error(), "no broker would be left") || !strings.Contains(err.Error(), c.brokers) {
				t.Errorf("error %v, want one that names the brokers %s", err, c.brokers)
			}
		})
	}
}
