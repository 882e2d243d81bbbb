package cli

import (
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/imagepull"
)

const imagePullFlag = "image-pull-secrets"

// pullSecrets are the Secrets of the flag, with which images of all pods of clusters are pulled.
type pullSecrets struct {
	names  []string
	usable []corev1.LocalObjectReference
}

func (s *pullSecrets) addFlag(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.names, imagePullFlag, nil, "Secrets in the namespace of each cluster that images of its pods are pulled with")
}

// read fails unless pods can be given all of the names.
func (s *pullSecrets) read() (err error) {
	if s.usable, err = imagepull.Parse(s.names); err != nil {
		return fmt.Errorf("reading --%s: %w", imagePullFlag, err)
	}
	return nil
}
