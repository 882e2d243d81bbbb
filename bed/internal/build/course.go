package build

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/keyturn/keyturn/bed/internal/versions"
)

// usual is about how long the steps of a whole bed take on two processors. Only their proportions count once the first one is
// done, and what is not listed takes no time to speak of.
func usual() map[string]time.Duration {
	return map[string]time.Duration{
		"kubernetes":                          232 * time.Second,
		"runtime":                             44 * time.Second,
		"cni":                                 3 * time.Second,
		"coredns":                             79 * time.Second,
		"certmanager":                         78 * time.Second,
		"etcd36":                              21 * time.Second,
		"etcd35":                              16 * time.Second,
		"java":                                4 * time.Second,
		"kafka-jars-" + versions.KafkaNew:     2 * time.Second,
		"kafka-jars-" + versions.KafkaOld:     2 * time.Second,
		"kafka-archives-" + versions.KafkaNew: 8 * time.Second,
		"kafka-archives-" + versions.KafkaOld: 7 * time.Second,
	}
}

// course is how far the building of a whole bed has come. The pace of this machine is measured by the steps that are done.
type course struct {
	left        map[string]time.Duration
	usual, took time.Duration
}

// Expect announces that a whole bed is built, so that progress tells the time that is left.
func (b Builder) Expect() error {
	missing := usual()
	for name := range maps.Keys(missing) {
		results, err := filepath.Glob(b.Folder.Built(name, strings.Repeat("?", keyLength)))
		if err != nil {
			return fmt.Errorf("looking for %s: %w", name, err)
		}
		if len(results) > 0 {
			delete(missing, name)
		}
	}
	b.course.left = missing
	return nil
}

// forecast is what progress says of the time that is left. It is nothing where no whole bed is built.
func (c *course) forecast() string {
	var left time.Duration
	for _, each := range c.left {
		left += each
	}
	if left == 0 {
		return ""
	}
	pace := 1.0
	if c.usual > 0 {
		pace = float64(c.took) / float64(c.usual)
	}
	return fmt.Sprintf("; about %.0f min until all is built", math.Ceil(left.Minutes()*pace))
}

// finish takes a step off.
func (c *course) finish(name string, took time.Duration) {
	if expected, is := c.left[name]; is {
		c.usual, c.took = c.usual+expected, c.took+took
		delete(c.left, name)
	}
}
