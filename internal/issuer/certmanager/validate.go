package certmanager

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/keyturn/keyturn/internal/issuer"
)

// The limits of cert-manager's admission webhook.
const (
	maxCommonName = 64 // bytes
	minDuration   = time.Hour
	minRenewal    = 5 * time.Minute
)

// check refuses what cert-manager's webhook would refuse, and what cert-manager cannot do.
func (o *Options) check(request issuer.Request) error {
	errs := []error{request.Validate(), checkName(o.secretName(request.Name)), o.Issuer.check()}
	if n := len(request.Subject.CommonName); n > maxCommonName {
		errs = append(errs, fmt.Errorf("the common name %q has %d bytes, more than %d: choose a shorter name", request.Subject.CommonName, n, maxCommonName))
	}
	if request.Validity < minDuration {
		errs = append(errs, fmt.Errorf("the validity %s is less than %s", request.Validity, minDuration))
	}
	if request.Renewal < minRenewal {
		errs = append(errs, fmt.Errorf("the renewal %s before the end is less than %s", request.Renewal, minRenewal))
	}
	return errors.Join(errs...)
}

// checkName refuses names that a Secret must not have; that of its Certificate is not longer.
func checkName(secret string) error {
	if wrong := validation.NameIsDNSSubdomain(secret, false); len(wrong) > 0 {
		return fmt.Errorf("a Secret must not be named %q: %s; choose a shorter or valid name", secret, strings.Join(wrong, "; "))
	}
	return nil
}

func (r Reference) check() error {
	switch {
	case r.Name == "":
		return errors.New("issuerRef names no issuer: set its name")
	case r.group() == Group && r.Kind != KindIssuer && r.Kind != KindClusterIssuer:
		return fmt.Errorf("issuerRef has the kind %q: set it to %s or %s, or set the group of another kind", r.Kind, KindIssuer, KindClusterIssuer)
	default:
		return nil
	}
}
