package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	etcddomains "github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/kstatus"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
)

// etcdCluster is one EtcdCluster as the status reads it.
type etcdCluster struct {
	connection

	name string
}

// etcdLook is a look at one EtcdCluster, with what its operator has recorded.
type etcdLook struct {
	etcdCluster

	operatorNamespace string
}

// etcdReport is what "keyturn status" says of one EtcdCluster.
type etcdReport struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	At        string `json:"at"`
	Version   string `json:"version,omitempty"`
	// Message says why there are no CAs; empty when there are.
	Message string            `json:"message,omitempty"`
	CAs     []etcdCertificate `json:"cas"`
	Members []etcdMember      `json:"members"`
	// Domains are what the operator has recorded of the CAs; empty without the right to read it.
	Domains    []rotation.Status  `json:"domains,omitempty"`
	Conditions []metav1.Condition `json:"conditions"`

	// unread says why CAs are not known that there are; empty when they are.
	unread string
}

// etcdMember is a member with what it presents on its ports.
type etcdMember struct {
	Name         string            `json:"name"`
	Version      string            `json:"version,omitempty"`
	Role         string            `json:"role,omitempty"`
	Ready        bool              `json:"ready"`
	Certificates []etcdCertificate `json:"certificates"`
}

// etcdCertificate is a certificate of a plane.
type etcdCertificate struct {
	Plane   string `json:"plane"`
	Subject string `json:"subject,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	// NotAfter is empty while there is no certificate.
	NotAfter string `json:"notAfter,omitempty"`
	// Request is Answered or Waiting; empty of a CA.
	Request string `json:"request,omitempty"`
	// Loaded says whether etcd presents the certificate, as the member reports it; nil while that is not known, and of a CA.
	Loaded *bool `json:"loaded,omitempty"`

	// end is NotAfter as a time, and renewal how long before it the certificate is due.
	end     time.Time
	renewal time.Duration
}

// What becomes of a request for a certificate. The conditions say why one waits.
const (
	requestAnswered = "Answered"
	requestWaiting  = "Waiting"
)

// closeUp looks at one EtcdCluster.
func (l etcdLook) closeUp(ctx context.Context) (sight, error) {
	etcd, err := l.etcd(ctx)
	if err != nil {
		return sight{}, err
	}
	report, err := l.report(ctx, etcd)
	if err != nil {
		return sight{}, err
	}
	report.Domains = l.recorded(ctx, etcd.UID)
	seen := sight{value: report, text: etcdText(report)}
	report.At = ""
	seen.timeless = etcdText(report)
	return seen, nil
}

// recorded are the CAs as the operator has recorded them. A person who may not read that is shown the rest.
func (l etcdLook) recorded(ctx context.Context, uid types.UID) []rotation.Status {
	records, err := l.records(ctx, uid, l.operatorNamespace)
	if err != nil {
		return nil
	}
	var recorded []rotation.Status
	for _, domain := range etcdDomains() {
		if record, found := records[domain]; found {
			recorded = append(recorded, record.Status(l.clock.Now()))
		}
	}
	return recorded
}

func (c etcdCluster) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

// etcdRights are those that looking at an EtcdCluster takes.
const etcdRights = "get etcdclusters.etcd.database.coreos.com and pods"

func (c etcdCluster) etcd(ctx context.Context) (*etcdv1beta2.EtcdCluster, error) {
	etcd := &etcdv1beta2.EtcdCluster{}
	if err := c.client.Get(ctx, c.key(c.name), etcd); err != nil {
		return nil, withRights(uninstalled(fmt.Errorf("reading EtcdCluster %s/%s: %w", c.namespace, c.name, err)), etcdRights)
	}
	return etcd, nil
}

// report is the status of an EtcdCluster that was read, with its members.
func (c etcdCluster) report(ctx context.Context, etcd *etcdv1beta2.EtcdCluster) (etcdReport, error) {
	report := etcdReport{
		Namespace: c.namespace, Cluster: c.name, At: stamp(c.clock.Now()), Version: etcd.Status.CurrentVersion,
		CAs: []etcdCertificate{}, Members: []etcdMember{}, Conditions: append([]metav1.Condition{}, etcd.Status.Conditions...),
	}
	if len(report.Conditions) == 0 {
		report.Message = fmt.Sprintf("No operator has reconciled this EtcdCluster. Check that the etcd operator runs (etcd.enabled of the chart) "+
			"and that it watches namespace %s (watchNamespaces).", c.namespace)
	}
	for i := range etcd.Status.MemberStatuses {
		member, err := c.member(ctx, &etcd.Status.MemberStatuses[i])
		if err != nil {
			return report, withRights(err, etcdRights)
		}
		report.Members = append(report.Members, member)
	}
	if len(report.Members) == 0 || len(report.Members[0].Certificates) == 0 {
		return report, nil
	}
	err := c.readCAs(ctx, &report)
	return report, err
}

func (c etcdCluster) member(ctx context.Context, status *etcdv1beta2.MemberStatus) (etcdMember, error) {
	member := etcdMember{Name: status.Name, Version: status.Version, Role: string(status.Role), Ready: status.Ready, Certificates: []etcdCertificate{}}
	pod := &corev1.Pod{}
	if err := c.client.Get(ctx, c.key(status.Name), pod); apierrors.IsNotFound(err) {
		return member, nil
	} else if err != nil {
		return member, fmt.Errorf("reading pod %s: %w", status.Name, err)
	}
	exchange := enroll.ExchangeOf(pod.Annotations)
	for _, plane := range contract.Planes() {
		request, answer := exchange.Requests[plane], exchange.Answers[plane]
		if request == "" && answer == "" {
			continue
		}
		certificate := etcdCertificate{Plane: string(plane), Request: requestWaiting}
		if chain, err := enroll.Chain(answer); err == nil {
			certificate.Issuer, certificate.NotAfter = chain[0].Issuer.CommonName, stamp(chain[0].NotAfter)
			certificate.Loaded = isLoaded(status, plane, chain[0])
			certificate.end, certificate.renewal = chain[0].NotAfter, chain[0].NotAfter.Sub(enroll.RenewalAt(chain[0]))
		}
		if exchange.IsAnswered(plane) {
			certificate.Request = requestAnswered
		}
		member.Certificates = append(member.Certificates, certificate)
	}
	return member, nil
}

// isLoaded says whether a member reports that it presents a certificate; nil when it reports nothing.
func isLoaded(status *etcdv1beta2.MemberStatus, plane contract.Plane, leaf *x509.Certificate) *bool {
	for i := range status.Loaded {
		if status.Loaded[i].Plane == string(plane) {
			return new(status.Loaded[i].Presents == pki.FingerprintOf(leaf).String())
		}
	}
	return nil
}

// readCAs reads the CAs that the first member trusts.
func (c etcdCluster) readCAs(ctx context.Context, report *etcdReport) error {
	secret := &corev1.Secret{}
	err := c.client.Get(ctx, c.key(report.Members[0].Name), secret)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		report.Message = fmt.Sprintf("The CAs are not shown: Secret %s cannot be read. Ask for the right to get it, which holds no key.", report.Members[0].Name)
		report.unread = report.Message
		return nil
	case err != nil:
		return fmt.Errorf("reading Secret %s: %w", report.Members[0].Name, err)
	}
	for _, plane := range contract.Planes() {
		anchors, err := pki.ParseBundle(secret.Data[plane.AnchorsKey()])
		if err != nil {
			return fmt.Errorf("reading %s of Secret %s: %w", plane.AnchorsKey(), secret.Name, err)
		}
		for _, anchor := range trusted(anchors, secret.Data[agent.PublicationKey], plane) {
			report.CAs = append(report.CAs, etcdCertificate{
				Plane: string(plane), Subject: anchor.Subject.CommonName, Issuer: anchor.Issuer.CommonName, NotAfter: stamp(anchor.NotAfter),
				end: anchor.NotAfter, renewal: etcddomains.RestartMargin(anchor.NotAfter.Sub(anchor.NotBefore)),
			})
		}
	}
	return nil
}

// trusted are the certificates that a publication names. The others show a pod that it may trust these.
func trusted(certificates []*x509.Certificate, published []byte, plane contract.Plane) []*x509.Certificate {
	named, err := publication.ParsePublication(published)
	if err != nil { // what is trusted is not known
		return certificates
	}
	return slices.DeleteFunc(certificates, func(c *x509.Certificate) bool {
		return !slices.Contains(named.Trust[plane.Role()], pki.FingerprintOf(c).String())
	})
}

// etcdText renders the status of an EtcdCluster for people.
func etcdText(report etcdReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "etcd/%s (namespace %s)", report.Cluster, report.Namespace)
	if report.At != "" {
		fmt.Fprintf(&b, " at %s", report.At)
	}
	b.WriteString("\n")
	b.WriteString(etcdTable("CAS", report.caRows()))
	if report.Message != "" {
		b.WriteString("\n" + said(report.Message) + "\n")
	}
	b.WriteString(etcdTable("MEMBERS", report.memberRows()))
	for i := range report.Domains {
		b.WriteString("\n" + authorityText(&report.Domains[i]))
	}
	b.WriteString(etcdTable("CONDITIONS", report.conditionRows()))
	return trimmed(b.String())
}

// etcdTable renders rows under a title; nothing where there are none.
func etcdTable(title string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\n"+title) // a strings.Builder takes everything
	for _, row := range rows {
		_, _ = fmt.Fprintf(table, "  %s\n", strings.Join(row, "\t"))
	}
	_ = table.Flush()
	return b.String()
}

func (r etcdReport) caRows() [][]string {
	if len(r.CAs) == 0 {
		return nil
	}
	rows := [][]string{{"PLANE", "CA", "SIGNED BY", "EXPIRES"}}
	for _, ca := range r.CAs {
		rows = append(rows, []string{ca.Plane, said(ca.Subject), said(ca.Issuer), ca.NotAfter})
	}
	return rows
}

func (r etcdReport) memberRows() [][]string {
	if len(r.Members) == 0 {
		return nil
	}
	rows := [][]string{{"MEMBER", "VERSION", "ROLE", "READY", "PLANE", "REQUEST", "LOADED", "SIGNED BY", "EXPIRES"}}
	for _, member := range r.Members {
		first := []string{member.Name, member.Version, cmp.Or(member.Role, "-"), yesOrNo(member.Ready)}
		if len(member.Certificates) == 0 {
			rows = append(rows, append(first, "-", "-", "-", "-", "-"))
		}
		for _, certificate := range member.Certificates {
			rows = append(rows, slices.Concat(first, []string{
				certificate.Plane, certificate.Request, ifKnown(certificate.Loaded), cmp.Or(said(certificate.Issuer), "-"), cmp.Or(certificate.NotAfter, "-"),
			}))
			first = []string{"", "", "", ""}
		}
	}
	return rows
}

func (r etcdReport) conditionRows() [][]string {
	var rows [][]string
	for i := range r.Conditions {
		if c := &r.Conditions[i]; !kstatus.IsDerived(c.Type) {
			rows = append(rows, []string{c.Type, string(c.Status), c.Reason, said(c.Message)})
		}
	}
	return rows
}

func ifKnown(value *bool) string {
	if value == nil {
		return "-"
	}
	return yesOrNo(*value)
}

func yesOrNo(value bool) string {
	if value {
		return "yes"
	}
	return "no"
}
