package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// gathering is how long changes are gathered before the kernel is told of them, and retry how long after a failure it is
// tried again. A pod's address is known to the API server later than that anyway.
const (
	gathering = 50 * time.Millisecond
	retry     = time.Second
)

// errNotSynced means that the API server could not be listened to before the context ended.
var errNotSynced = errors.New("the API server was not heard before the end")

// Run enforces the policies of the cluster until the context ends. trusted is the interface that the machine's packets come
// in by.
func Run(ctx context.Context, kubeconfig, trusted string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "bed-policies"))
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	return newEnforcer(client, trusted).run(ctx)
}

// enforcer keeps the kernel's rules as the cluster's policies say.
type enforcer struct {
	factory informers.SharedInformerFactory
	trusted string
	changed chan struct{}
	told    string
}

func newEnforcer(client kubernetes.Interface, trusted string) *enforcer {
	return &enforcer{factory: informers.NewSharedInformerFactory(client, 0), trusted: trusted, changed: make(chan struct{}, 1)}
}

func (e *enforcer) run(ctx context.Context) error {
	for _, informer := range []cache.SharedIndexInformer{
		e.factory.Networking().V1().NetworkPolicies().Informer(),
		e.factory.Core().V1().Pods().Informer(),
		e.factory.Core().V1().Namespaces().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { e.note() }, UpdateFunc: func(any, any) { e.note() }, DeleteFunc: func(any) { e.note() },
		}); err != nil {
			return fmt.Errorf("listening to the API server: %w", err)
		}
	}
	e.factory.Start(ctx.Done())
	for kind, synced := range e.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%s: %w", kind, errNotSynced)
		}
	}
	e.note()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.changed:
			e.follow(ctx)
		}
	}
}

// note says that something has changed; how much does not matter.
func (e *enforcer) note() {
	select {
	case e.changed <- struct{}{}:
	default: // it was said, and nobody has listened yet
	}
}

// follow tells the kernel what holds now, unless it knows.
func (e *enforcer) follow(ctx context.Context) {
	again := gathering
	if err := e.tell(ctx); err != nil {
		log.Print(err)
		e.note()
		again = retry
	}
	select {
	case <-ctx.Done():
	case <-time.After(again):
	}
}

func (e *enforcer) tell(ctx context.Context) error {
	world, err := e.world()
	if err != nil {
		return err
	}
	rules := render(decide(world), e.trusted)
	if rules == e.told {
		return nil
	}
	command := exec.CommandContext(ctx, "nft", "-f", "-")
	command.Stdin = strings.NewReader(rules)
	var problems bytes.Buffer
	command.Stderr = &problems
	if err := command.Run(); err != nil {
		return fmt.Errorf("telling the kernel with nft: %w: %s", err, problems.Bytes())
	}
	e.told = rules
	return nil
}

func (e *enforcer) world() (World, error) {
	policies, err := e.factory.Networking().V1().NetworkPolicies().Lister().List(labels.Everything())
	if err != nil {
		return World{}, fmt.Errorf("listing policies: %w", err)
	}
	pods, err := e.factory.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		return World{}, fmt.Errorf("listing pods: %w", err)
	}
	namespaces, err := e.factory.Core().V1().Namespaces().Lister().List(labels.Everything())
	if err != nil {
		return World{}, fmt.Errorf("listing namespaces: %w", err)
	}
	return World{Policies: policies, Pods: pods, Namespaces: namespaces}, nil
}
