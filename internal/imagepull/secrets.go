package imagepull

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// Usable are the Secrets that a pod can be given, in their order, and what is wrong with each of the others: every name is
// that of a Secret, and is there once.
func Usable(secrets []corev1.LocalObjectReference) (usable []corev1.LocalObjectReference, wrong []string) {
	for _, secret := range secrets {
		problems := validation.IsDNS1123Subdomain(secret.Name)
		name := excerpt.Of(secret.Name, excerpt.Value)
		switch {
		case secret.Name == "":
			wrong = append(wrong, "one has no name")
		case len(problems) > 0:
			wrong = append(wrong, fmt.Sprintf("%q cannot be the name of a Secret (%s)", name, strings.Join(problems, ", ")))
		case slices.Contains(usable, secret):
			wrong = append(wrong, fmt.Sprintf("%q is there twice", name))
		default:
			usable = append(usable, secret)
		}
	}
	return usable, wrong
}

// Parse reads names of Secrets. The error says what is wrong with all of them that no pod can be given.
func Parse(names []string) ([]corev1.LocalObjectReference, error) {
	secrets := make([]corev1.LocalObjectReference, 0, len(names))
	for _, name := range names {
		secrets = append(secrets, corev1.LocalObjectReference{Name: name})
	}
	usable, wrong := Usable(secrets)
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s: give each Secret once, by its name", strings.Join(wrong, "; ")) //nolint:err113 // nothing tells them apart
	}
	return usable, nil
}
