package scenarios

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

// kubeletContract holds the bed's kubelet to the suite that the stand-in of the API tests
// fulfils: with a pod that nobody else knows of, and volumes where an agent has them.
func kubeletContract(s *stage) {
	s.must(s.onlyOnBed())
	s.fromScratch()
	p := &idlePod{s: s}
	s.must(p.make(s.ctx))
	s.Run("contract", func(t *testing.T) {
		mounttest.Run(t, func(*testing.T) mounttest.Subject {
			return mounttest.Subject{
				Store: p.store, Delete: p.delete, Mounted: p.mounted, Work: func(context.Context) {},
				Pod: p.pod, Restart: p.restart, Replace: p.replace,
			}
		})
	})
}

// idlePod is a pod that does nothing, with the volumes of a node.
type idlePod struct{ s *stage }

const (
	idleName = "idle"
	// idleImage is the bed's own, which every sandbox there runs.
	idleImage = "keyturn.dev/pause:1"
	// idleVolumes begins the names of the objects that it mounts.
	idleVolumes = "idle-"
)

// places are where the volumes are mounted.
func places() map[mounttest.Volume]string {
	return map[mounttest.Volume]string{
		mounttest.Node: agent.NodeDir, mounttest.ClusterTrust: contract.ClusterTrustDir, mounttest.Config: agent.ConfigDir,
	}
}

func (p *idlePod) object(volume mounttest.Volume) client.Object {
	meta := p.s.meta(idleVolumes + string(volume))
	if volume == mounttest.Config {
		return &corev1.ConfigMap{ObjectMeta: meta}
	}
	return &corev1.Secret{ObjectMeta: meta}
}

// make makes the objects and the pod.
func (p *idlePod) make(ctx context.Context) error {
	for volume := range places() {
		if err := p.s.kube.Create(ctx, p.object(volume)); err != nil {
			return err
		}
	}
	return p.start(ctx)
}

// start makes the pod and waits until it runs.
func (p *idlePod) start(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: p.s.meta(idleName),
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: idleName, Image: idleImage, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
	for volume, place := range places() {
		object := idleVolumes + string(volume)
		source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: object}}
		if volume == mounttest.Config {
			source = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: object}}}
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: string(volume), VolumeSource: source})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: string(volume), MountPath: place})
	}
	if err := p.s.kube.Create(ctx, pod); err != nil {
		return err
	}
	return p.untilRuns(ctx, mounttest.Pod{})
}

// untilRuns waits for another container than the one.
func (p *idlePod) untilRuns(ctx context.Context, before mounttest.Pod) error {
	return harness.Poll(ctx, func() (bool, error) {
		now, err := p.pod(ctx)
		if errors.Is(err, errIdle) {
			return false, nil
		}
		return err == nil && now.Container != before.Container, err
	})
}

// errIdle is a pod whose container does not run at this moment.
var errIdle = errors.New("no container of the pod runs")

func (p *idlePod) pod(ctx context.Context) (mounttest.Pod, error) {
	pod := &corev1.Pod{}
	if err := p.s.kube.Get(ctx, p.s.kafka.Key(idleName), pod); err != nil {
		return mounttest.Pod{}, err
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return mounttest.Pod{UID: string(pod.UID), Container: status.ContainerID}, nil
		}
	}
	return mounttest.Pod{}, errIdle
}

func (p *idlePod) inside(ctx context.Context) (harness.Inside, error) {
	pod := &corev1.Pod{}
	if err := p.s.kube.Get(ctx, p.s.kafka.Key(idleName), pod); err != nil {
		return harness.Inside{}, err
	}
	return harness.InsideOf(pod.UID, agent.NodeDir)
}

// mounted reads the volumes as an agent does.
func (p *idlePod) mounted(ctx context.Context) (stores.Mounted, error) {
	inside, err := p.inside(ctx)
	if err != nil {
		return stores.Mounted{}, err
	}
	mounted, _, err := mount.NewReader(mount.Paths{
		Node:         filepath.Join(inside.Root, agent.NodeDir),
		ClusterTrust: filepath.Join(inside.Root, contract.ClusterTrustDir),
		ClientsTrust: filepath.Join(inside.Root, contract.ClientsTrustDir),
		Config:       filepath.Join(inside.Root, agent.ConfigDir),
		Pod:          filepath.Join(inside.Root, agent.PodDir),
	}).Read()
	return mounted, err
}

func (p *idlePod) store(ctx context.Context, volume mounttest.Volume, entries map[string][]byte) error {
	object := p.object(volume)
	err := p.s.kube.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		object = p.object(volume)
		err = p.s.kube.Create(ctx, object)
	}
	if err != nil {
		return err
	}
	var data any = entries
	if volume == mounttest.Config {
		texts := map[string]string{}
		for name, text := range entries {
			texts[name] = string(text)
		}
		data = texts
	}
	return p.s.kube.MergePatch(ctx, object, map[string]any{"data": data})
}

func (p *idlePod) delete(ctx context.Context, volume mounttest.Volume) error {
	return p.s.kube.Delete(ctx, p.object(volume))
}

// restart ends the only process of the container, as a crash does.
func (p *idlePod) restart(ctx context.Context) error {
	before, err := p.pod(ctx)
	if err != nil {
		return err
	}
	inside, err := p.inside(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Kill(inside.Process, syscall.SIGKILL); err != nil {
		return err
	}
	return p.untilRuns(ctx, before)
}

func (p *idlePod) replace(ctx context.Context) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.s.kafka.Namespace, Name: idleName}}
	if err := p.s.kube.Delete(ctx, pod); err != nil {
		return err
	}
	err := harness.Poll(ctx, func() (bool, error) {
		err := p.s.kube.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	return p.start(ctx)
}
