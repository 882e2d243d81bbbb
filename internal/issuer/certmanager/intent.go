package certmanager

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
)

// managedByLabel names what writes an object.
const managedByLabel = "app.kubernetes.io/managed-by"

// nameField is where objects and references have a name.
const nameField = "name"

// intent is the Certificate for a request, in the form in which it is applied.
func (o *Options) intent(request issuer.Request) *unstructured.Unstructured {
	spec := map[string]any{
		"secretName":     o.secretName(request.Name),
		"secretTemplate": map[string]any{"labels": values(o.secretLabels())},
		"commonName":     request.Subject.CommonName,
		"usages":         usages(request.Usages, request.Key.Algorithm),
		"privateKey": map[string]any{
			"algorithm": string(request.Key.Algorithm), "size": int64(request.Key.Size),
			"encoding": "PKCS8", // the only form that a JVM reads from a PEM store
			// A new key for each leaf: a leaf that was stolen is of no use after its end.
			"rotationPolicy": "Always",
		},
		"duration":    request.Validity.String(),
		"renewBefore": request.Renewal.String(),
		"isCA":        false,
		"issuerRef":   values(map[string]string{nameField: o.Issuer.Name, "kind": o.Issuer.Kind, "group": o.Issuer.group()}),
	}
	if organization := request.Subject.Organization; organization != "" {
		spec["subject"] = map[string]any{"organizations": []any{organization}}
	}
	if o.PasswordEntry != "" {
		spec["keystores"] = map[string]any{"pkcs12": map[string]any{
			"create": true, "profile": "Modern2023",
			"passwordSecretRef": values(map[string]string{nameField: o.secretName(request.Name), "key": o.PasswordEntry}),
		}}
	}
	if len(request.SANs.DNS) > 0 {
		spec["dnsNames"] = texts(request.SANs.DNS)
	}
	if len(request.SANs.IPs) > 0 {
		spec["ipAddresses"] = texts(request.SANs.IPs)
	}
	certificate := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	certificate.SetGroupVersionKind(certificates().GroupVersion().WithKind(kindCertificate))
	certificate.SetNamespace(o.Namespace)
	certificate.SetName(request.Name)
	certificate.SetLabels(o.labels())
	o.refer(certificate)
	return certificate
}

// secretLabels are those that cert-manager puts on the Secret. A given one has its own, and gets those by which its owner is
// told again when it is deleted by mistake and cert-manager creates it.
func (o *Options) secretLabels() map[string]string {
	if o.Placement == InGivenSecret {
		return o.Selector
	}
	all := o.labels()
	if all[managedByLabel] != "" {
		all[managedByLabel] = "cert-manager" // which writes the Secret
	}
	if o.References == WithReferences {
		all[OwnerLabel] = string(o.Owner.UID)
	}
	return all
}

// refer makes an intent refer to the owner, if anything does.
func (o *Options) refer(intent *unstructured.Unstructured) {
	if o.References == WithReferences {
		intent.SetOwnerReferences([]metav1.OwnerReference{o.Owner})
	}
}

func (r Reference) group() string {
	if r.Group == "" {
		return Group
	}
	return r.Group
}

// usages are in cert-manager's words. RSA keys also encipher the keys of old cipher suites.
func usages(asked []pki.Usage, algorithm pki.Algorithm) []any {
	all := []any{"digital signature"}
	if algorithm == pki.RSA {
		all = append(all, "key encipherment")
	}
	return append(all, texts(asked)...)
}

func values(fields map[string]string) map[string]any {
	converted := make(map[string]any, len(fields))
	for name, text := range fields {
		converted[name] = text
	}
	return converted
}

func texts[T any](elements []T) []any {
	list := make([]any, 0, len(elements))
	for _, v := range elements {
		list = append(list, fmt.Sprint(v))
	}
	return list
}

// isApplied reports whether an object has all fields of the intent, and whether they are exactly those that FieldOwner
// has applied: a field of an earlier intent is to be removed.
func isApplied(observed, intent *unstructured.Unstructured) (bool, error) {
	owned := &fieldpath.Set{}
	for _, entry := range observed.GetManagedFields() {
		if !kube.Applies(entry, FieldOwner) || entry.FieldsV1 == nil {
			continue
		}
		if err := owned.FromJSON(strings.NewReader(entry.FieldsV1.GetRawString())); err != nil {
			return false, fmt.Errorf("reading the managed fields of %s %s: %w", observed.GetKind(), observed.GetName(), err)
		}
	}
	return owned.Leaves().Equals(fieldsOf(intent)) && contains(observed.Object, intent.Object), nil
}

// fieldsOf are the fields that the API server notes for the owner of an intent.
func fieldsOf(intent *unstructured.Unstructured) *fieldpath.Set {
	fields := fieldpath.NewSet()
	for name, content := range intent.Object {
		if name != "apiVersion" && name != "kind" {
			addFields(fields, fieldpath.MakePathOrDie(name), content)
		}
	}
	identity := fieldpath.NewSet()
	for _, name := range []string{nameField, "namespace"} {
		identity.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return fields.Difference(identity)
}

func addFields(fields *fieldpath.Set, path fieldpath.Path, content any) {
	switch content := content.(type) {
	case map[string]any:
		for name, inner := range content {
			addFields(fields, append(path.Copy(), fieldpath.PathElement{FieldName: &name}), inner)
		}
	case []any:
		keys := keysOf(path, content)
		if keys == nil {
			fields.Insert(path)
		}
		for _, key := range keys {
			fields.Insert(append(path.Copy(), fieldpath.PathElement{Key: key}))
		}
	default:
		fields.Insert(path)
	}
}

// keysOf are the keys of owner references, the only list of these objects whose elements have owners of their own.
func keysOf(path fieldpath.Path, list []any) []*value.FieldList {
	if !path.Equals(fieldpath.MakePathOrDie("metadata", "ownerReferences")) {
		return nil
	}
	keys := make([]*value.FieldList, 0, len(list))
	for _, element := range list {
		if fields, is := element.(map[string]any); is {
			keys = append(keys, &value.FieldList{{Name: "uid", Value: value.NewValueInterface(fields["uid"])}})
		}
	}
	return keys
}

// contains reports whether everything in wanted is the same in observed. Of lists, only owner references may have more.
func contains(observed, wanted map[string]any) bool {
	for name, want := range wanted {
		var same bool
		switch want := want.(type) {
		case map[string]any:
			inner, is := observed[name].(map[string]any)
			same = is && contains(inner, want)
		case []any:
			list, is := observed[name].([]any)
			same = is && (reflect.DeepEqual(list, want) || name == "ownerReferences" && includes(list, want))
		default:
			same = reflect.DeepEqual(observed[name], want)
		}
		if !same {
			return false
		}
	}
	return true
}

func includes(list, wanted []any) bool {
	for _, want := range wanted {
		found := false
		for _, element := range list {
			found = found || reflect.DeepEqual(element, want)
		}
		if !found {
			return false
		}
	}
	return true
}

// read fills into from an object as the API server answers it.
func read(object *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("decoding %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return nil
}
