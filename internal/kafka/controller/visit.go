package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// visit is all that one pass asks of a cluster. It keeps the place that it gets until it
// ends: whoever had to be waited for once has to be waited for again.
type visit struct {
	asker *asker
	kafka types.UID
	// waited is how long answers have been waited for.
	waited time.Duration
	// placed is true once it has a place, lacking once somebody was not asked, or not waited
	// for, because it has none, and ended when it takes none any more.
	placed, lacking, ended bool
}

func (a *asker) visit(kafka types.UID) *visit { return &visit{asker: a, kafka: kafka} }

// put asks all questions side by side until the context ends, and says what became of
// each. Those who are slow are waited for only in a place, whoever is asked: without one,
// the questions end when prompt answers would have come.
func (v *visit) put(ctx context.Context, of reach, questions []question) fates {
	a := v.asker
	t, became := a.turns(v.kafka, of, questions), make(fates, len(questions))
	for i, q := range questions {
		became[i] = a.presumption(v.kafka, q)
	}
	if len(t.slow) > 0 && !v.stay() {
		t = v.withoutPlace(of, t)
	}
	left := v.left(of)
	if left <= 0 && !v.stay() {
		v.lack()
		return became
	}
	ctx, done := v.hurry(ctx, left)
	defer done()
	share := make(chan struct{}, questionsAtOnce)
	var group sync.WaitGroup
	for _, i := range slices.Concat(t.prompt, t.slow) {
		if !enter(ctx, share) {
			break
		}
		group.Go(func() {
			defer leave(share)
			became[i] = a.ask(ctx, v.kafka, questions[i])
		})
	}
	group.Wait()
	return became
}

// withoutPlace are those who are asked if nobody can be waited for.
func (v *visit) withoutPlace(of reach, t turns) turns {
	if of == acting {
		t.hasty = nil
	}
	if len(t.hasty) < len(t.slow) {
		v.lack()
	}
	return turns{prompt: t.prompt, slow: t.hasty}
}

// left is what there is without a place of the time in which prompt answers come. What is
// done by whoever is asked has a time of its own.
func (v *visit) left(of reach) time.Duration {
	if of == acting {
		return promptly
	}
	return promptly - v.waited
}

// hurry is a context for questions that ends when prompt answers would have come, unless
// there is a place then.
func (v *visit) hurry(ctx context.Context, left time.Duration) (hurried context.Context, done func()) {
	hurried, end := context.WithCancel(ctx)
	began := v.asker.clock.Now()
	prompt, stop := context.WithTimeout(ctx, left)
	forget := context.AfterFunc(prompt, func() {
		if !v.stay() {
			v.lack()
			end()
		}
	})
	return hurried, func() {
		forget()
		stop()
		end()
		v.waited += max(0, v.asker.clock.Since(began))
	}
}

// stay reports whether the visit has a place, and takes one if it may.
func (v *visit) stay() bool {
	a := v.asker
	a.mu.Lock()
	defer a.mu.Unlock()
	if !v.placed && !v.ended {
		now := a.clock.Now()
		v.placed = a.places.take(v.kafka, rankOf(a.standings[v.kafka], now), now)
	}
	return v.placed
}

func (v *visit) lack() {
	v.asker.mu.Lock()
	defer v.asker.mu.Unlock()
	v.lacking = true
}

// leave ends the visit. A cluster that needed no place does not wait for one any more.
func (v *visit) leave() {
	a := v.asker
	a.mu.Lock()
	defer a.mu.Unlock()
	v.ended = true
	switch {
	case v.placed:
		a.places.leave()
	case !v.lacking:
		a.places.giveUp(v.kafka)
	}
}
