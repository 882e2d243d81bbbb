package admin

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestTheLimitOfAnAnswerFollowsTheSizeOfTheCluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		brokers, controllers     int
		ofABroker, ofAController int
	}{
		"one node": {brokers: 1, ofABroker: 128 << 10, ofAController: 16 << 10},
		"the most that the smallest limit is for": {brokers: 256, ofABroker: 128 << 10, ofAController: 16 << 10},
		"one broker more":                         {brokers: 257, ofABroker: 257 * 512, ofAController: 257 * 64},
		"one node more, a controller":             {brokers: 254, controllers: 3, ofABroker: 128 << 10, ofAController: 257 * 64},
		"the largest cluster":                     {brokers: 995, controllers: 5, ofABroker: 995 * 512, ofAController: 1000 * 64},
		"more addresses than any cluster":         {brokers: 5000, ofABroker: 1 << 20, ofAController: 5000 * 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Brokers: make([]string, c.brokers), Controllers: make([]string, c.controllers)}
			if got := o.brokerLimit(); got != c.ofABroker {
				t.Errorf("of a broker %d bytes are read, want %d", got, c.ofABroker)
			}
			if got := o.controllerLimit(); got != c.ofAController {
				t.Errorf("of a controller %d bytes are read, want %d", got, c.ofAController)
			}
		})
	}
}

func TestEverythingThatIsKeptOfAPartitionIsCounted(t *testing.T) {
	t.Parallel()
	const fits = keptBytes - partitionBytes
	for name, c := range map[string]struct {
		partition Partition
		want      error
	}{
		"a name that just fits":       {Partition{Topic: strings.Repeat("x", fits)}, nil},
		"a name that is too long":     {Partition{Topic: strings.Repeat("x", fits+1)}, errMany},
		"replicas that just fit":      {Partition{Replicas: make([]int32, fits/4)}, nil},
		"too many replicas":           {Partition{Replicas: make([]int32, fits/4+1)}, errMany},
		"too many replicas in sync":   {Partition{InSync: make([]int32, fits/4+1)}, errMany},
		"as many in sync as just fit": {Partition{InSync: make([]int32, fits/4)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := (&listing{}).add(c.partition); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestTheNameOfATopicIsKeptOnceHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	list := listing{}
	for number := range int32(3) {
		if err := list.add(Partition{Topic: strings.Clone("orders"), Partition: number}); err != nil {
			t.Fatal(err)
		}
	}
	kept := reflect.ValueOf(list.partitions[0].Topic).Pointer()
	for _, p := range list.partitions[1:] {
		if reflect.ValueOf(p.Topic).Pointer() != kept {
			t.Errorf("partition %d keeps the name %s once more", p.Partition, p.Topic)
		}
	}
}
