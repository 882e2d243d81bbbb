package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// OutsidePKI is the PKI of a company: openssl and a root whose key stays in a folder of this machine.
type OutsidePKI struct{ dir string }

const (
	rootFile, rootKeyFile = "root.crt", "root.key"
	caExtensions          = "basicConstraints=critical,CA:TRUE,pathlen:%d\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid:always\n"
)

// NewOutsidePKI makes the root.
func NewOutsidePKI(ctx context.Context, dir string) (OutsidePKI, error) {
	o := OutsidePKI{dir}
	return o, o.openssl(ctx, "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-keyout", rootKeyFile, "-out", rootFile, "-days", "7300",
		"-subj", "/O=Company/CN=Company root", "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
}

// Sign answers a request with a CA of a path length, for ten years, and the root.
func (o OutsidePKI) Sign(ctx context.Context, request []byte, pathLength int) ([]byte, error) {
	const requestFile, extensionsFile, answerFile = "request.csr", "extensions.cnf", "answer.crt"
	if err := errors.Join(
		o.write(requestFile, request),
		o.write(extensionsFile, fmt.Appendf(nil, caExtensions, pathLength)),
	); err != nil {
		return nil, err
	}
	err := o.openssl(ctx, "x509", "-req", "-in", requestFile, "-CA", rootFile, "-CAkey", rootKeyFile, "-CAcreateserial", "-days", "3650",
		"-sha256", "-extfile", extensionsFile, "-out", answerFile)
	if err != nil {
		return nil, err
	}
	return o.read(answerFile, rootFile)
}

// Verify verifies a certificate over others up to the root as strictly as openssl can.
func (o OutsidePKI) Verify(ctx context.Context, leaf []byte, others ...[]byte) error {
	const leafFile, othersFile = "leaf.crt", "others.crt"
	if err := errors.Join(o.write(leafFile, leaf), o.write(othersFile, slices.Concat(others...))); err != nil {
		return err
	}
	return o.openssl(ctx, "verify", "-x509_strict", "-CAfile", rootFile, "-untrusted", othersFile, leafFile)
}

func (o OutsidePKI) openssl(ctx context.Context, arguments ...string) error {
	command := exec.CommandContext(ctx, "openssl", arguments...)
	command.Dir = o.dir
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running openssl %s: %w\n%s", arguments[0], err, said)
	}
	return nil
}

func (o OutsidePKI) write(file string, text []byte) error {
	if err := os.WriteFile(filepath.Join(o.dir, file), text, 0o600); err != nil {
		return fmt.Errorf("writing for openssl: %w", err)
	}
	return nil
}

func (o OutsidePKI) read(files ...string) ([]byte, error) {
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(o.dir, file))
		if err != nil {
			return nil, fmt.Errorf("reading what openssl has written: %w", err)
		}
		all = append(all, text...)
	}
	return all, nil
}

// EtcdPKI reads the EtcdPKI.
func (k *Kubernetes) EtcdPKI(ctx context.Context) (*keyturnv1alpha1.EtcdPKI, error) {
	found := &keyturnv1alpha1.EtcdPKI{}
	if err := k.Get(ctx, types.NamespacedName{Name: keyturnv1alpha1.EtcdPKIName}, found); err != nil {
		return nil, fmt.Errorf("reading the EtcdPKI: %w", err)
	}
	return found, nil
}

// CreateEtcdPKI asks for CAs that an outside PKI signs.
func (k *Kubernetes) CreateEtcdPKI(ctx context.Context) error {
	outside := &keyturnv1alpha1.EtcdPKI{
		ObjectMeta: metav1.ObjectMeta{Name: keyturnv1alpha1.EtcdPKIName}, Spec: keyturnv1alpha1.EtcdPKISpec{Mode: keyturnv1alpha1.Outside},
	}
	if err := k.Create(ctx, outside); err != nil {
		return fmt.Errorf("creating the EtcdPKI: %w", err)
	}
	return nil
}

// UntilEtcdPKI waits until Ready of the EtcdPKI has a reason, and returns it.
func (k *Kubernetes) UntilEtcdPKI(ctx context.Context, reason model.Reason) (*keyturnv1alpha1.EtcdPKI, error) {
	var found *keyturnv1alpha1.EtcdPKI
	err := k.Follow(ctx, &keyturnv1alpha1.EtcdPKIList{}, func(objects Objects) (bool, error) {
		found, _ = objects[keyturnv1alpha1.EtcdPKIName].(*keyturnv1alpha1.EtcdPKI)
		if found == nil {
			return false, nil
		}
		ready := meta.FindStatusCondition(found.Status.Conditions, keyturnv1alpha1.ConditionReady)
		return ready != nil && ready.Reason == string(reason) && ready.ObservedGeneration == found.Generation, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until the EtcdPKI is %s: %w; it is %+v", reason, err, found)
	}
	return found, nil
}

// AnswerEtcdPKI puts the answer for a plane into the EtcdPKI.
func (k *Kubernetes) AnswerEtcdPKI(ctx context.Context, plane contract.Plane, answer []byte) error {
	found, err := k.EtcdPKI(ctx)
	if err != nil {
		return err
	}
	before := found.DeepCopy()
	if plane == contract.PeerPlane {
		found.Spec.Certificates.Peer = string(answer)
	} else {
		found.Spec.Certificates.Client = string(answer)
	}
	if err := k.Patch(ctx, found, client.MergeFrom(before), owner); err != nil {
		return fmt.Errorf("answering in the EtcdPKI: %w", err)
	}
	return nil
}

// SigningRequest reads the CertificateSigningRequest of the operator's CA of a plane.
func (k *Kubernetes) SigningRequest(ctx context.Context, plane contract.Plane) (*certificatesv1.CertificateSigningRequest, error) {
	found := &certificatesv1.CertificateSigningRequest{}
	own := model.OperatorCA{Namespace: OperatorNamespace, Plane: plane}
	if err := k.Get(ctx, types.NamespacedName{Name: own.SigningRequest()}, found); err != nil {
		return nil, fmt.Errorf("reading the request of the operator's %s CA: %w", plane, err)
	}
	return found, nil
}

// AnswerSigningRequest approves a CertificateSigningRequest and gives it a certificate.
func (k *Kubernetes) AnswerSigningRequest(ctx context.Context, request *certificatesv1.CertificateSigningRequest, answer []byte) error {
	before := request.DeepCopy()
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Company", Message: "A person has looked at it.",
	})
	if err := k.SubResource("approval").Patch(ctx, request, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("approving %s: %w", request.Name, err)
	}
	before = request.DeepCopy()
	request.Status.Certificate = answer
	if err := k.Status().Patch(ctx, request, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("answering %s: %w", request.Name, err)
	}
	return nil
}

// ForgetOutsidePKI removes the EtcdPKI, and the certificates that it brought the operator's CAs. Their keys stay.
func (k *Kubernetes) ForgetOutsidePKI(ctx context.Context) error {
	problems := []error{k.DeleteAllOf(ctx, &keyturnv1alpha1.EtcdPKI{})}
	for _, plane := range contract.Planes() {
		own := model.OperatorCA{Namespace: OperatorNamespace, Plane: plane}
		for _, object := range []client.Object{
			&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: own.SigningRequest()}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: own.CertSecret()}},
		} {
			problems = append(problems, client.IgnoreNotFound(k.Delete(ctx, object)))
		}
	}
	return errors.Join(problems...)
}
