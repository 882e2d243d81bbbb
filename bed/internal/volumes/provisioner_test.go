package volumes

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func provisioned(t *testing.T, d directories) *corev1.PersistentVolume {
	t.Helper()
	policy := corev1.PersistentVolumeReclaimDelete
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	volume, _, err := d.Provision(t.Context(), controller.ProvisionOptions{
		StorageClass: &storagev1.StorageClass{ReclaimPolicy: &policy}, PVName: "pv-1", PVC: claim, SelectedNodeName: "node",
	})
	if err != nil {
		t.Fatal(err)
	}
	return volume
}

func TestAnyUserMayWriteIntoANewVolume(t *testing.T) {
	t.Parallel()
	volume := provisioned(t, directories{folder: t.TempDir()})
	info, err := os.Stat(volume.Spec.Local.Path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o777 {
		t.Errorf("the volume has the rights %s", info.Mode())
	}
	if size := volume.Spec.Capacity[corev1.ResourceStorage]; size.String() != "1Gi" {
		t.Errorf("the volume holds %s, want what was claimed", size.String())
	}
}

func TestDeletedVolumesLeaveNothing(t *testing.T) {
	t.Parallel()
	d := directories{folder: t.TempDir()}
	volume := provisioned(t, d)
	if err := os.WriteFile(filepath.Join(volume.Spec.Local.Path, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(volume.Spec.Local.Path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the volume's data is still there")
	}
}

func TestVolumesElsewhereAreLeftAlone(t *testing.T) {
	t.Parallel()
	d := directories{folder: t.TempDir()}
	volume := provisioned(t, d)
	volume.Spec.Local.Path = t.TempDir()
	err := d.Delete(t.Context(), volume)
	if _, ignored := errors.AsType[*controller.IgnoredError](err); !ignored {
		t.Errorf("Delete() = %v, want it ignored", err)
	}
	if _, err := os.Stat(volume.Spec.Local.Path); err != nil {
		t.Errorf("a folder elsewhere is gone: %v", err)
	}
}
