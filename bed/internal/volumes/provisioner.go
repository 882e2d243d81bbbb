package volumes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// directories provisions volumes as directories below one folder.
type directories struct{ folder string }

// Run provisions the claims whose storage class names this provisioner, until the context ends.
func Run(ctx context.Context, name, kubeconfig, folder string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "bed-provisioner"))
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	controller.NewProvisionController(ctx, client, name, directories{folder: folder},
		controller.LeaderElection(false), controller.MetricsPort(0)).Run(ctx)
	return nil
}

// Provision makes a directory and a volume that points to it. The volume is of the kind "local", which, other than a
// host path, honours a pod's file system group.
func (d directories) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := filepath.Join(d.folder, options.PVName)
	if err := makeOpen(path); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("making the volume %s: %w", options.PVName, err)
	}
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      options.PVC.Spec.Resources.Requests.DeepCopy(),
			AccessModes:                   options.PVC.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			MountOptions:                  options.StorageClass.MountOptions,
			VolumeMode:                    &mode,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity:                  onNode(options.SelectedNodeName),
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes the directory of a released volume and refuses one that does not lie where this provisioner puts them.
func (d directories) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	path := filepath.Join(d.folder, volume.Name)
	if local := volume.Spec.Local; local == nil || local.Path != path {
		return &controller.IgnoredError{Reason: "the volume does not lie at " + path}
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("removing the volume %s: %w", volume.Name, err)
	}
	return nil
}

// makeOpen lets every user write, as a fresh disk would after kubelet has handed it to a pod.
func makeOpen(path string) error {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	return os.Chmod(path, 0o777) // what the process's umask took away
}

func onNode(name string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
		}},
	}}}}
}
