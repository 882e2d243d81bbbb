package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

const (
	// restoredPort is where an etcd with restored data serves in its pod, on loopback and without TLS.
	restoredPort = "2379"
	restoredPod  = "restored"
	etcdUser     = 1000
	claimSize    = "1Gi"
)

// BackUp creates a claim and an EtcdBackup, both of the name, and waits until the backup is verified.
func (e Etcd) BackUp(ctx context.Context, name string) (*etcdv1beta2.EtcdBackup, error) {
	meta := metav1.ObjectMeta{Namespace: e.Namespace, Name: name}
	if err := errors.Join(
		e.Kube.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(claimSize)}},
		}}),
		e.Kube.Create(ctx, &etcdv1beta2.EtcdBackup{ObjectMeta: meta, Spec: etcdv1beta2.EtcdBackupSpec{
			StorageType: etcdv1beta2.StorageVolume, EtcdCluster: &etcdv1beta2.ClusterReference{Name: e.Name},
			Volume: &etcdv1beta2.VolumeStorage{ClaimName: name},
		}}),
	); err != nil {
		return nil, fmt.Errorf("creating EtcdBackup %s: %w", name, err)
	}
	return e.untilBackedUp(ctx, name)
}

func (e Etcd) untilBackedUp(ctx context.Context, name string) (*etcdv1beta2.EtcdBackup, error) {
	var last *etcdv1beta2.EtcdBackup
	err := e.Kube.Follow(ctx, &etcdv1beta2.EtcdBackupList{}, func(backups Objects) (bool, error) {
		backup, ok := backups[name].(*etcdv1beta2.EtcdBackup)
		if !ok {
			return false, nil
		}
		last = backup
		return meta.IsStatusConditionTrue(backup.Status.Conditions, etcdv1beta2.ConditionReady), nil
	}, selected(e.Namespace, nil)...)
	if err != nil && last != nil {
		err = fmt.Errorf("the status is %+v: %w", last.Status, err)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting until EtcdBackup %s is Ready: %w", name, err)
	}
	return last, nil
}

// Restoring is a change for Create: the file that the cluster begins with.
func Restoring(source map[string]any) func(*unstructured.Unstructured) error {
	return func(cluster *unstructured.Unstructured) error {
		return unstructured.SetNestedMap(cluster.Object, source, "spec", "restore")
	}
}

// Stop deletes the pods of members of a paused cluster, and waits until they are gone.
func (e Etcd) Stop(ctx context.Context, members ...string) error {
	if err := e.DeletePods(ctx, members...); err != nil {
		return err
	}
	err := e.Kube.Follow(ctx, &corev1.PodList{}, func(pods Objects) (bool, error) {
		return !slices.ContainsFunc(members, func(member string) bool { return pods[member] != nil }), nil
	}, client.InNamespace(e.Namespace))
	if err != nil {
		return fmt.Errorf("waiting until the pods %v are gone: %w", members, err)
	}
	return nil
}

// BackupFile is the file of a backup, read past Kubernetes on the bed; nil elsewhere.
func (e Etcd) BackupFile(ctx context.Context, backup *etcdv1beta2.EtcdBackup) ([]byte, error) {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if bed, err := e.Kube.OnBed(ctx); err != nil || !bed {
		return nil, err
	}
	err := e.Kube.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: backup.Spec.Volume.ClaimName}, claim)
	if err == nil {
		err = e.Kube.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, volume)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the volume of EtcdBackup %s: %w", backup.Name, err)
	}
	data, err := os.ReadFile(filepath.Join(volume.Spec.Local.Path, backup.Status.Path))
	if err != nil {
		return nil, fmt.Errorf("reading the file of EtcdBackup %s: %w", backup.Name, err)
	}
	return data, nil
}

// Restore has etcdutl restore a backup in a pod, starts one etcd on the data, and connects to it.
func (e Etcd) Restore(ctx context.Context, backup *etcdv1beta2.EtcdBackup) (*clientv3.Client, error) {
	cluster, err := e.Resource(ctx)
	if err != nil {
		return nil, err
	}
	pod := restoring(e.Namespace, cmp.Or(cluster.Spec.Repository, model.DefaultRepository)+":v"+cluster.Spec.Version, backup)
	if err := e.Kube.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
	err = e.Kube.Follow(ctx, &corev1.PodList{}, func(pods Objects) (bool, error) {
		running, ok := pods[pod.Name].(*corev1.Pod)
		return ok && running.Status.Phase == corev1.PodRunning, nil
	}, selected(e.Namespace, nil)...)
	if err != nil {
		return nil, fmt.Errorf("waiting until pod %s runs: %w", pod.Name, err)
	}
	forward := reach.Forward(e.Kube.Plain, e.Kube.Config, e.Namespace)
	node := reach.Node{Name: pod.Name, UID: string(pod.UID)}
	connected, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{"http://" + net.JoinHostPort(restoredPod, restoredPort)}, DialTimeout: time.Minute, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return forward(ctx, node, restoredPort)
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to pod %s: %w", pod.Name, err)
	}
	return connected, nil
}

func restoring(namespace, image string, backup *etcdv1beta2.EtcdBackup) *corev1.Pod {
	const data, stored = "/var/etcd", "/backup"
	mounts := []corev1.VolumeMount{{Name: "data", MountPath: data}, {Name: "backup", MountPath: stored, ReadOnly: true}}
	url := "http://" + net.JoinHostPort("127.0.0.1", restoredPort)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: restoredPod},
		Spec: corev1.PodSpec{
			RestartPolicy:   corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(etcdUser)), FSGroup: new(int64(etcdUser))},
			InitContainers: []corev1.Container{{
				Name: "restore", Image: image, VolumeMounts: mounts,
				Command: []string{"/usr/local/bin/etcdutl", "snapshot", "restore", filepath.Join(stored, backup.Status.Path), "--data-dir", data + "/data"},
			}},
			Containers: []corev1.Container{{
				Name: "etcd", Image: image, VolumeMounts: mounts,
				Command: []string{"/usr/local/bin/etcd", "--data-dir=" + data + "/data", "--listen-client-urls=" + url, "--advertise-client-urls=" + url},
			}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "backup", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: backup.Spec.Volume.ClaimName}}},
			},
		},
	}
}
