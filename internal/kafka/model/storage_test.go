package model

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func claim(size string) kafkav1.Storage {
	return kafkav1.Storage{Type: kafkav1.StoragePersistentClaim, Volume: kafkav1.Volume{Size: size}}
}

func jbod(volumes ...kafkav1.JBODVolume) kafkav1.Storage {
	return kafkav1.Storage{Type: kafkav1.StorageJBOD, Volumes: volumes}
}

func disk(id int32, size string) kafkav1.JBODVolume {
	return kafkav1.JBODVolume{ID: id, Type: kafkav1.StoragePersistentClaim, Volume: kafkav1.Volume{Size: size}}
}

func metadataDisk(id int32, size string) kafkav1.JBODVolume {
	volume := disk(id, size)
	volume.KraftMetadata = kafkav1.KraftMetadataShared
	return volume
}

func withClass(storage kafkav1.Storage, class string) kafkav1.Storage {
	storage.Class = class
	return storage
}

// Storage that is in use follows only what volumes can follow.
func TestStorageChanges(t *testing.T) {
	t.Parallel()
	yes := true
	deleting := claim("10Gi")
	deleting.DeleteClaim = &yes
	cases := map[string]struct {
		old, wanted, kept kafkav1.Storage
		warns             string
	}{
		"unchanged":                    {claim("10Gi"), claim("10Gi"), claim("10Gi"), ""},
		"the same size in other units": {claim("10Gi"), claim("10240Mi"), claim("10240Mi"), ""},
		"growing":                      {claim("10Gi"), claim("20Gi"), claim("20Gi"), ""},
		"shrinking":                    {claim("10Gi"), claim("5Gi"), claim("10Gi"), "cannot shrink"},
		"delete claim":                 {claim("10Gi"), deleting, deleting, ""},
		"another type":                 {claim("10Gi"), kafkav1.Storage{Type: kafkav1.StorageEphemeral}, claim("10Gi"), "type stays persistent-claim"},
		"another class":                {claim("10Gi"), withClass(claim("10Gi"), "fast"), claim("10Gi"), "class stays"},
		"shrinking and deleting":       {claim("20Gi"), deleting, kafkav1.Storage{Type: kafkav1.StoragePersistentClaim, Volume: kafkav1.Volume{Size: "20Gi", DeleteClaim: &yes}}, "cannot shrink"},
		"to jbod":                      {claim("10Gi"), jbod(disk(0, "10Gi")), claim("10Gi"), "type stays persistent-claim"},
		"one more disk":                {jbod(disk(0, "1Gi")), jbod(disk(0, "1Gi"), disk(1, "1Gi")), jbod(disk(0, "1Gi"), disk(1, "1Gi")), ""},
		"one disk less":                {jbod(disk(0, "1Gi"), disk(1, "1Gi")), jbod(disk(0, "1Gi")), jbod(disk(0, "1Gi"), disk(1, "1Gi")), "volume 1 stays"},
		"a smaller disk":               {jbod(disk(0, "2Gi")), jbod(disk(0, "1Gi")), jbod(disk(0, "2Gi")), "volume 0: the size stays"},
		"a lower disk is added":        {jbod(disk(1, "1Gi")), jbod(disk(0, "1Gi"), disk(1, "1Gi")), jbod(disk(0, "1Gi"), metadataDisk(1, "1Gi")), "metadata log stays on volume 1"},
		"the metadata log moves":       {jbod(disk(0, "1Gi"), disk(1, "1Gi")), jbod(disk(0, "1Gi"), metadataDisk(1, "1Gi")), jbod(metadataDisk(0, "1Gi"), disk(1, "1Gi")), "metadata log stays on volume 0"},
		"another ephemeral limit": {
			kafkav1.Storage{Type: kafkav1.StorageEphemeral},
			kafkav1.Storage{Type: kafkav1.StorageEphemeral, Volume: kafkav1.Volume{SizeLimit: "1Gi"}},
			kafkav1.Storage{Type: kafkav1.StorageEphemeral},
			"sizeLimit stays",
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			in.Pools[0].Spec.Storage = test.old
			in = built(in, map[string][]NodeID{"dual": {0, 1, 2}})
			in.Pools[0].Spec.Storage = test.wanted
			cluster, findings := resolved(t, in)
			if diff := cmp.Diff(test.kept, cluster.Pools[0].Storage); diff != "" {
				t.Errorf("storage (-want +got):\n%s", diff)
			}
			warned := slices.ContainsFunc(findings.Warnings, func(f Finding) bool {
				return f.Reason == ReasonStorage && strings.Contains(f.Message, test.warns)
			})
			if warned != (test.warns != "") {
				t.Errorf("warnings: %v", findings.Warnings)
			}
		})
	}
}

func TestAStorageThatIsNotFollowedSaysWhatToPutRightAndWhere(t *testing.T) {
	t.Parallel()
	in := built(exampleInput(), map[string][]NodeID{"dual": {0, 1, 2}})
	in.Pools[0].Spec.Storage = kafkav1.Storage{Type: kafkav1.StorageEphemeral}
	_, findings := resolved(t, in)
	const refused = "these changes to spec.storage were not made: the type stays "
	if len(findings.Warnings) != 1 || !strings.HasPrefix(findings.Warnings[0].Message, refused) {
		t.Errorf("warnings: %v, want one that says %q", findings.Warnings, refused)
	}

	known := in.Known.Pools["dual"]
	known.Storage = &kafkav1.Storage{Type: "nonsense"}
	in.Known.Pools["dual"] = known
	_, findings = Resolve(in)
	const lost = "the storage in use, which StrimziPodSet my-dual records, cannot be used: "
	if len(findings.Errors) != 1 || !strings.HasPrefix(findings.Errors[0].Message, lost) || !strings.HasSuffix(findings.Errors[0].Message, ": restore its annotation strimzi.io/storage") {
		t.Errorf("errors: %v, want one that says %q", findings.Errors, lost)
	}
}

func TestStorageSurvivesItsAnnotation(t *testing.T) {
	t.Parallel()
	want := jbod(metadataDisk(3, "1Gi"), disk(0, "500Mi"))
	text, err := EncodeStorage(want)
	must(t, err)
	got, err := ParseStorage(text)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("storage (-want +got):\n%s", diff)
	}
}

func TestBrokenStorageIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":             "{",
		"no type":             "{}",
		"no size":             `{"type":"persistent-claim"}`,
		"an unknown type":     `{"type":"tape"}`,
		"a nested jbod":       `{"type":"jbod","volumes":[{"id":0,"type":"jbod"}]}`,
		"an id used twice":    `{"type":"jbod","volumes":[{"id":1,"type":"ephemeral"},{"id":1,"type":"ephemeral"}]}`,
		"a negative id":       `{"type":"jbod","volumes":[{"id":-1,"type":"ephemeral"}]}`,
		"a negative size":     `{"type":"persistent-claim","size":"-1Gi"}`,
		"a senseless size":    `{"type":"persistent-claim","size":"ten"}`,
		"a senseless maximum": `{"type":"ephemeral","sizeLimit":"ten"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if storage, err := ParseStorage(text); !errors.Is(err, ErrStorage) {
				t.Errorf("%s gives %+v, %v", text, storage, err)
			}
		})
	}
}

func FuzzParseStorage(f *testing.F) {
	f.Add(`{"type":"persistent-claim","size":"10Gi"}`)
	f.Add(`{"type":"jbod","volumes":[{"id":0,"type":"ephemeral","sizeLimit":"1Gi"},{"id":1,"type":"persistent-claim","size":"1","kraftMetadata":"shared"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		storage, err := ParseStorage(text)
		if err != nil {
			return
		}
		volumes, err := volumesOf(storage)
		if err != nil {
			t.Fatalf("%q was read but has no volumes: %s", text, err)
		}
		metadata := 0
		for _, volume := range volumes {
			if volume.Metadata {
				metadata++
			}
		}
		if metadata != 1 {
			t.Errorf("%q has %d volumes with the metadata log", text, metadata)
		}
		kept, refused := mergeStorage(storage, storage)
		if len(refused) > 0 {
			t.Errorf("%q differs from itself: %v, %+v", text, refused, kept)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"10Gi", "1e3", "0", "-1", "1m", "999999999999999999999Ei", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			if !errors.Is(err, ErrStorage) {
				t.Errorf("an error of another kind: %s", err)
			}
			return
		}
		if size.Sign() <= 0 {
			t.Errorf("%q gives %s", text, size.String())
		}
		again, err := ParseSize(size.String())
		if err != nil || again.Cmp(size) != 0 {
			t.Errorf("%q gives %s, which gives %s, %v", text, size.String(), again.String(), err)
		}
	})
}

func TestStorageFieldsThatSayNothing(t *testing.T) {
	t.Parallel()
	no := false
	full := kafkav1.Volume{
		Size: "1Gi", SizeLimit: "1Gi", Class: "fast", Selector: map[string]string{"a": "b"},
		DeleteClaim: &no, KraftMetadata: kafkav1.KraftMetadataShared,
	}
	cases := map[string]struct {
		storage kafkav1.Storage
		want    []string
	}{
		"a claim":                   {claim("1Gi"), nil},
		"a limit of a claim":        {kafkav1.Storage{Type: kafkav1.StoragePersistentClaim, Volume: full}, []string{"spec.storage.sizeLimit"}},
		"what only a claim has":     {kafkav1.Storage{Type: kafkav1.StorageEphemeral, Volume: full}, []string{"spec.storage.class", "spec.storage.deleteClaim", "spec.storage.selector", "spec.storage.size"}},
		"anything beside a jbod":    {kafkav1.Storage{Type: kafkav1.StorageJBOD, Volume: full}, []string{"spec.storage.class", "spec.storage.deleteClaim", "spec.storage.kraftMetadata", "spec.storage.selector", "spec.storage.size", "spec.storage.sizeLimit"}},
		"volumes of different type": {jbod(kafkav1.JBODVolume{Type: kafkav1.StorageEphemeral, Volume: kafkav1.Volume{Size: "1Gi"}}, kafkav1.JBODVolume{ID: 1, Type: kafkav1.StoragePersistentClaim, Volume: full}), []string{"spec.storage.volumes[0].size", "spec.storage.volumes[1].sizeLimit"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, IdleStorageFields(test.storage)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}
