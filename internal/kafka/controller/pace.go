package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// paces remembers how long restarts and reloads of each cluster have taken, so
// that a plan can say how long it will take.
type paces struct {
	mu sync.Mutex
	of map[types.UID]*pace
}

type pace struct {
	restart, reload mean
}

// mean is the mean of what was measured.
type mean struct {
	sum   time.Duration
	count int
}

func (m *mean) add(d time.Duration) { m.sum, m.count = m.sum+d, m.count+1 }

// longestPace is more than anything has ever taken that a mean could be made of.
const longestPace = 24 * time.Hour

// recall begins with a mean that was written down, as if it had been measured once. What is
// no length of time was not.
func (m *mean) recall(seconds float64) {
	if seconds > 0 && seconds < longestPace.Seconds() {
		m.add(time.Duration(seconds * float64(time.Second)))
	}
}

func (m *mean) seconds() float64 {
	if m.count == 0 {
		return 0
	}
	return (m.sum / time.Duration(m.count)).Round(time.Second / 10).Seconds()
}

func newPaces() *paces { return &paces{of: map[types.UID]*pace{}} }

func (p *paces) restarted(kafka types.UID, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.get(kafka).restart.add(took)
}

func (p *paces) reloaded(kafka types.UID, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.get(kafka).reload.add(took)
}

// recall begins with what the operator before this one has measured.
func (p *paces) recall(kafka types.UID, restartSeconds, reloadSeconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.get(kafka).restart.recall(restartSeconds)
	p.get(kafka).reload.recall(reloadSeconds)
}

func (p *paces) seconds(kafka types.UID) (restart, reload float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.get(kafka).restart.seconds(), p.get(kafka).reload.seconds()
}

// forget drops a Kafka that is gone.
func (p *paces) forget(kafka types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, kafka)
}

// get is called with the lock held.
func (p *paces) get(kafka types.UID) *pace {
	if p.of[kafka] == nil {
		p.of[kafka] = &pace{}
	}
	return p.of[kafka]
}
