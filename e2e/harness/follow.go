package harness

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects are objects of one kind, by name.
type Objects map[string]client.Object

// errWatchEnded makes a follower list again.
var errWatchEnded = errors.New("the watch ended")

// Follow lists objects and watches them until done says so. An error of done ends
// it, too.
func (k *Kubernetes) Follow(ctx context.Context, list client.ObjectList, done func(Objects) (bool, error), options ...client.ListOption) error {
	for {
		finished, err := k.followOnce(ctx, list, done, options)
		if finished || err != nil && !errors.Is(err, errWatchEnded) {
			return err
		}
	}
}

func (k *Kubernetes) followOnce(ctx context.Context, list client.ObjectList, done func(Objects) (bool, error), options []client.ListOption) (bool, error) {
	if err := k.List(ctx, list, options...); err != nil {
		return false, fmt.Errorf("listing %T: %w", list, err)
	}
	objects := Objects{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := objectOf(item)
		if err == nil {
			objects[object.GetName()] = object
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if finished, err := done(objects); finished || err != nil {
		return finished, err
	}
	from := client.ListOptions{}
	from.ApplyOptions(options)
	from.Raw = from.AsListOptions()
	from.Raw.ResourceVersion = list.GetResourceVersion()
	events, err := k.Watch(ctx, list, &from)
	if err != nil {
		return false, fmt.Errorf("watching %T: %w", list, err)
	}
	defer events.Stop()
	return objects.follow(ctx, events, done)
}

func (o Objects) follow(ctx context.Context, events watch.Interface, done func(Objects) (bool, error)) (bool, error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, open := <-events.ResultChan():
			if !open {
				return false, errWatchEnded
			}
			if err := o.note(event); err != nil {
				return false, err
			}
			if finished, err := done(o); finished || err != nil {
				return finished, err
			}
		}
	}
}

func (o Objects) note(event watch.Event) error {
	if event.Type == watch.Error {
		failure := apierrors.FromObject(event.Object)
		if apierrors.IsResourceExpired(failure) || apierrors.IsGone(failure) {
			return errWatchEnded
		}
		return fmt.Errorf("watching: %w", failure)
	}
	object, err := objectOf(event.Object)
	if err != nil {
		return err
	}
	if event.Type == watch.Deleted {
		delete(o, object.GetName())
		return nil
	}
	o[object.GetName()] = object
	return nil
}

func objectOf(item runtime.Object) (client.Object, error) {
	object, ok := item.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no Kubernetes object", item)
	}
	return object, nil
}
