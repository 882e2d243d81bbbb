package scenarios

import (
	"bytes"
	cryptorand "crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

const (
	// maxForCAs is how long both CAs may take until nothing trusts the former ones.
	maxForCAs = 3 * time.Minute
	// maxStall is how long no write may be acknowledged: an election timeout, and a second.
	maxStall = 2 * time.Second
	// maxForDistrust is that for CAs that are distrusted.
	maxForDistrust = 5 * time.Minute
	// etcdNewest and etcdBefore are the versions of etcd that are rotated.
	etcdNewest, etcdBefore = "3.6.16", "3.5.35"
)

// rotatedCAs is a cluster of three members whose CAs change while applications are at work.
type rotatedCAs struct {
	*stage

	etcd    harness.Etcd
	access  *keyturnv1alpha1.EtcdAccess
	members []string
	// former are the CAs that sign before the change.
	former     map[contract.Plane]pki.Authority
	containers map[string]string
	// restarts counts how often members are asked to start etcd again, and mostRestarts is how often each may be.
	restarts     func() (map[string]int, error)
	mostRestarts int
	// replacements counts how often both CAs were asked for.
	replacements int
	backups      []*etcdv1beta2.EtcdBackup
}

// then does what comes next unless what was before it has failed.
func then(err error, do func() error) error {
	if err != nil {
		return err
	}
	return do()
}

// operatorForAccess has an operator that gives credentials to applications.
func (s *stage) operatorForAccess() {
	s.Helper()
	s.fromScratch()
	s.operatorForEtcdWith(map[string]any{"enabled": true, "access": map[string]any{"enabled": true}})
}

// rotatedCAs is a cluster under load, with an operator of its own.
func (s *stage) rotatedCAs() *rotatedCAs {
	s.Helper()
	s.operatorForAccess()
	return s.rotatedCAsOf(etcdNewest)
}

func (s *stage) rotatedCAsOf(version string, changes ...func(*unstructured.Unstructured) error) *rotatedCAs {
	s.Helper()
	r := &rotatedCAs{stage: s, etcd: harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}, mostRestarts: 1}
	s.step("three members of etcd "+version+" created", func() error {
		return then(r.etcd.Create(s.ctx, 3, append(changes, harness.Version(version))...), func() error { return r.etcd.UntilReady(s.ctx) })
	})
	r.members = s.allVote(r.etcd, 3)
	name := types.NamespacedName{Namespace: r.etcd.Namespace, Name: "load"}
	r.access = &keyturnv1alpha1.EtcdAccess{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec:       keyturnv1alpha1.EtcdAccessSpec{Cluster: keyturnv1alpha1.EtcdClusterReference{Name: r.etcd.Name, Namespace: r.etcd.Namespace}},
	}
	s.must(s.kube.Create(s.ctx, r.access.DeepCopy()))
	s.step("an application has credentials", func() error { return s.untilAccess(name, model.SecretReady) })
	var err error
	r.containers, err = r.etcd.Containers(s.ctx)
	s.must(err)
	r.remember()
	r.restarts = r.etcd.CountRestarts(s.ctx)
	s.step("clients work", func() error {
		load, err := r.etcd.LoadAs(s.ctx, r.etcd.Application(s.ctx, name))
		s.etcdLoad = load
		return err
	})
	s.must(harness.Let(s.ctx, harness.Quiet))
	return r
}

// remember takes the CAs that sign now for those before the change.
func (r *rotatedCAs) remember() {
	r.Helper()
	former, err := r.etcd.CAs(r.ctx)
	r.must(err)
	r.former = former
}

// untilMoved waits until the application has a certificate that the former client CA has not signed.
func (r *rotatedCAs) untilMoved() error {
	return harness.Poll(r.ctx, func() (bool, error) {
		leaf, err := pki.FirstCertificate(r.secretOf(types.NamespacedName{Namespace: r.access.Namespace, Name: r.access.Name}).Data[corev1.TLSCertKey])
		return err == nil && !pki.IssuedBy(leaf, r.former[contract.ClientPlane].Certificate()), err
	})
}

// untilAlone waits until no member trusts the former CAs.
func (r *rotatedCAs) untilAlone() error { return r.etcd.UntilTrustedAlone(r.ctx, r.former) }

// alone ends the waiting for the application, and waits until the former CAs are trusted by no member.
func (r *rotatedCAs) alone() {
	r.Helper()
	r.must(harness.Let(r.ctx, time.Second)) // the time as an annotation has it is a second's
	r.step("the former CAs are trusted by nothing", func() error {
		return then(r.etcd.Rotate(r.ctx, "--client-ca", "--clients-moved"), r.untilAlone)
	})
}

// replace has both CAs replaced.
func (r *rotatedCAs) replace() {
	r.Helper()
	r.plansOneRestart(r.etcd, contract.PeerPlane)
	begun := time.Now()
	r.step("the application has a certificate of the new CA", func() error {
		return then(r.etcd.Rotate(r.ctx, "--client-ca", "--peer-ca"), r.untilMoved)
	})
	r.backUp()
	r.forgetBackups()
	r.alone()
	r.figure(report.AtMost("both CAs replaced", time.Since(begun).Seconds(), maxForCAs.Seconds(), "s", "from the request until no member trusts the former ones"))
}

// witness ends the clients, and holds that no connection was refused and no container restarted but those of members that were down.
func (r *rotatedCAs) witness(down ...string) {
	r.Helper()
	result := r.witnessEtcd()
	r.figure(report.AtMost("refused connections", float64(len(result.Refusals)), 0, "connections", "that one side refused, of clients at work and fresh ones"))
	longest := maxStall
	if len(down) > 0 {
		longest = maxGap
	}
	r.figure(report.AtMost("longest time without a write within bounds", result.Stall.Length.Seconds(), longest.Seconds(), "s", "between two acknowledgements of any writer"))
	restarts, err := r.restarts()
	r.must(err)
	most := 0
	for _, times := range restarts {
		most = max(most, times)
	}
	r.figure(report.AtMost("restarts of etcd of one member", float64(most), float64(r.mostRestarts), "restarts", "in its pod, as the operator asked for them"))
	now, err := r.etcd.Containers(r.ctx)
	r.must(err)
	isDown := func(container, _ string) bool {
		member, _, _ := strings.Cut(container, "/")
		return slices.Contains(down, member) || !slices.Contains(r.members, member)
	}
	maps.DeleteFunc(now, isDown)
	maps.DeleteFunc(r.containers, isDown)
	if diff := cmp.Diff(r.containers, now); diff != "" {
		r.Errorf("containers were restarted (-before +after):\n%s", diff)
	}
}

// refusesFormer holds that each member refuses certificates of the former CAs on both ports, and accepts those of the present ones.
func (r *rotatedCAs) refusesFormer() {
	r.Helper()
	r.step("certificates of the former CAs are refused", func() error {
		present, err := r.etcd.CAs(r.ctx)
		if err != nil {
			return err
		}
		for _, member := range r.members {
			for _, plane := range contract.Planes() {
				if err := errors.Join(r.accepts(member, plane, r.former[plane], false), r.accepts(member, plane, present[plane], true)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// accepts holds whether a member accepts a certificate of a CA. What the member presents is of no interest here.
func (r *rotatedCAs) accepts(member string, plane contract.Plane, ca pki.Authority, want bool) error {
	certificate, err := clientOf(ca)
	if err != nil {
		return err
	}
	accepts, err := r.etcd.Accepts(r.ctx, member, plane, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}})
	if err == nil && accepts != want {
		r.Errorf("member %s accepts a certificate of CA %s in the %s plane: %t", member, ca.Certificate().Subject, plane, accepts)
	}
	return err
}

// backUp copies the cluster.
func (r *rotatedCAs) backUp() {
	r.Helper()
	r.step("backed up", func() error {
		backup, err := r.etcd.BackUp(r.ctx, "backup-"+strings.ToLower(cryptorand.Text()[:8]))
		r.backups = append(r.backups, backup)
		return err
	})
}

// forgetBackups deletes the EtcdBackups, and with them what their pods have trusted.
func (r *rotatedCAs) forgetBackups() {
	r.Helper()
	for _, backup := range r.backups {
		r.must(r.kube.Delete(r.ctx, backup))
	}
	r.backups = nil
}

// trustsNoFormer holds that the former CAs are trusted by no Secret of the cluster, its applications and its backups.
func (r *rotatedCAs) trustsNoFormer() {
	r.Helper()
	var trusting []string
	r.step("no Secret has a former CA trusted", func() error {
		err := harness.Poll(r.ctx, func() (isNone bool, err error) {
			trusting, err = r.etcd.Trusting(r.ctx, r.former)
			return len(trusting) == 0, err
		})
		if err != nil {
			err = fmt.Errorf("trusted by %s: %w", strings.Join(trusting, ", "), err)
		}
		return err
	})
}

func (r *rotatedCAs) delete() {
	r.Helper()
	r.forgetBackups()
	r.must(r.kube.Delete(r.ctx, r.access))
	r.step("deleted", func() error { return r.etcd.Delete(r.ctx) })
}

// etcdCAsReplaced has both CAs replaced while applications are at work. Etcd of each version is started again in its pod.
func etcdCAsReplaced(s *stage) {
	s.operatorForAccess()
	for _, version := range []string{etcdBefore, etcdNewest} {
		r := s.rotatedCAsOf(version)
		trusting, err := r.etcd.Trusting(r.ctx, r.former)
		r.must(err)
		if len(trusting) < len(r.members) {
			r.Errorf("the CAs that sign are trusted by %q alone", trusting)
		}
		r.replace()
		r.witness()
		r.refusesFormer()
		r.backUp()
		r.trustsNoFormer()
		r.delete()
	}
}

// etcdCAsRenewed has CAs of about the shortest validity that an EtcdCluster may ask for, and clients at work over their ends. The
// client CA is renewed after members were started again for the peer CA.
func etcdCAsRenewed(s *stage) {
	s.operatorForAccess()
	r := s.rotatedCAsOf(etcdNewest, harness.CALife(contract.PeerPlane, 3*shortLife+time.Minute), harness.CALife(contract.ClientPlane, 4*shortLife), harness.LeafValidity(shortLife))
	r.mostRestarts = 2
	r.step("both CAs are renewed, and loaded alone", r.untilAlone)
	last := r.former[contract.PeerPlane].Certificate().NotAfter
	if end := r.former[contract.ClientPlane].Certificate().NotAfter; end.After(last) {
		last = end
	}
	if left := time.Until(last); left <= 0 {
		r.Errorf("the renewed CAs were loaded %s after the end of those before", -left)
	}
	r.step("the end of the CAs before is a minute ago", func() error { return harness.Let(r.ctx, time.Until(last)+time.Minute) })
	present, err := r.etcd.CAs(r.ctx)
	r.must(err)
	for _, plane := range contract.Planes() {
		if !bytes.Equal(present[plane].Certificate().RawSubjectPublicKeyInfo, r.former[plane].Certificate().RawSubjectPublicKeyInfo) {
			r.Errorf("the renewed %s CA has another key", plane)
		}
	}
	r.witness()
	r.delete()
}

// etcdOperatorKilled has the operator killed at random moments while both CAs are replaced again and again.
func etcdOperatorKilled(s *stage) {
	// Each pod was created to accept the first CA, and the way from that to the newest is four long.
	const kills, longestLife, mostReplacements = 20, 2 * time.Second, 4
	seed := uint64(time.Now().UnixNano())
	chance := rand.New(rand.NewPCG(seed, 0))
	s.notes = append(s.notes, fmt.Sprintf("moments by the seed %d", seed))
	r := s.rotatedCAs()
	r.step(fmt.Sprintf("operator killed %d times", kills), func() error {
		for range kills {
			if err := r.kube.UntilEtcdLed(r.ctx); err != nil {
				return err
			}
			if err := r.replaceAgain(mostReplacements); err != nil {
				return err
			}
			if err := then(harness.Let(r.ctx, time.Duration(chance.Int64N(int64(longestLife)))), func() error { return r.kube.CrashProcess(r.ctx, harness.EtcdOperator) }); err != nil {
				return err
			}
		}
		return nil
	})
	r.step("the application has a certificate of the new CA", r.untilMoved)
	r.must(harness.Let(r.ctx, time.Second))
	r.step("the former CAs are trusted by nothing", func() error { return then(r.etcd.ClientsMoved(r.ctx), r.untilAlone) }) // it may be over
	r.mostRestarts = 2 * r.replacements
	r.witness()
	r.refusesFormer()
	s.notes = append(s.notes, fmt.Sprintf("the operator was killed %d times in the course of %d replacements of both CAs", kills, r.replacements))
	r.delete()
}

// replaceAgain asks for other keys when the former CAs are trusted by nothing, and otherwise ends the waiting for the application
// once it has moved.
func (r *rotatedCAs) replaceAgain(most int) error {
	resource, err := r.etcd.Resource(r.ctx)
	if err != nil {
		return err
	}
	present, err := r.etcd.CAs(r.ctx)
	if err != nil {
		return err
	}
	isOver := !meta.IsStatusConditionTrue(resource.Status.Conditions, etcdv1beta2.ConditionRotatingCAs)
	for _, plane := range contract.Planes() {
		trusted, ca := harness.Trusts(resource.Status, plane), present[plane].Certificate()
		isOver = isOver && len(trusted) == 1 && trusted[pki.FingerprintOf(ca).String()] && (r.replacements == 0 || !ca.Equal(r.former[plane].Certificate()))
	}
	if isOver && r.replacements < most {
		r.former = present
		r.replacements++
		return r.etcd.ReplaceCAs(r.ctx)
	}
	leaf, err := pki.FirstCertificate(r.secretOf(types.NamespacedName{Namespace: r.access.Namespace, Name: r.access.Name}).Data[corev1.TLSCertKey])
	if err != nil || !pki.IssuedBy(leaf, present[contract.ClientPlane].Certificate()) {
		return err
	}
	return r.etcd.ClientsMoved(r.ctx)
}

// etcdMemberDown has a member down before both CAs are replaced: the condition names it, no other is restarted without it, and the
// replacement completes when it is back.
func etcdMemberDown(s *stage) {
	r := s.rotatedCAs()
	down := r.members[2]
	var back func() error
	r.step(down+" goes down, and finds no machine", func() (err error) {
		if back, err = r.kube.Cordon(r.ctx); err != nil {
			return err
		}
		r.Cleanup(func() { r.must(back()) })
		if err := r.etcd.DeletePods(r.ctx, down); err != nil {
			return err
		}
		return r.etcd.UntilStatus(r.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool { return !harness.IsReady(status) })
	})
	r.step("it is named in a rotation", func() error {
		if err := r.etcd.ReplaceCAs(r.ctx); err != nil {
			return err
		}
		return r.etcd.UntilStatus(r.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool {
			rotating := meta.FindStatusCondition(status.Conditions, etcdv1beta2.ConditionRotatingCAs)
			return rotating != nil && rotating.Status == metav1.ConditionTrue && strings.Contains(rotating.Message, down)
		})
	})
	r.must(harness.Let(r.ctx, harness.Quiet))
	resource, err := r.etcd.Resource(r.ctx)
	r.must(err)
	for _, plane := range contract.Planes() {
		if former := pki.FingerprintOf(r.former[plane].Certificate()).String(); !harness.Trusts(resource.Status, plane)[former] {
			r.Errorf("members trust the %s CA no more while %s is down", plane, down)
		}
	}
	r.step(down+" comes back", func() error { return back() })
	r.step("the application has a certificate of the new CA", r.untilMoved)
	r.alone()
	r.witness(down)
	r.refusesFormer()
	r.delete()
}

// etcdReplacementAborted has a replacement of the client CA taken back while it waits for the application.
func etcdReplacementAborted(s *stage) {
	r := s.rotatedCAs()
	r.mostRestarts = 0
	old := r.former[contract.ClientPlane]
	r.step("the application has a certificate of the new CA", func() error {
		return then(r.etcd.ReplaceCA(r.ctx, contract.ClientPlane), r.untilMoved)
	})
	r.remember()
	r.step("the application has a certificate of the old CA", func() error {
		return then(r.etcd.Rotate(r.ctx, "--client-ca", "--abort"), r.untilMoved)
	})
	r.must(harness.Let(r.ctx, time.Second))
	aborted := pki.FingerprintOf(r.former[contract.ClientPlane].Certificate()).String()
	r.step("the aborted CA is trusted by nothing", func() error {
		if err := r.etcd.ClientsMoved(r.ctx); err != nil {
			return err
		}
		return r.etcd.UntilStatus(r.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool {
			isRotating := meta.IsStatusConditionTrue(status.Conditions, etcdv1beta2.ConditionRotatingCAs)
			return harness.IsReady(status) && !isRotating && !harness.Trusts(status, contract.ClientPlane)[aborted]
		})
	})
	present, err := r.etcd.CAs(r.ctx)
	r.must(err)
	if !present[contract.ClientPlane].Certificate().Equal(old.Certificate()) {
		r.Errorf("the client CA is %s after the abort, and was %s", present[contract.ClientPlane].Certificate().SerialNumber, old.Certificate().SerialNumber)
	}
	r.witness()
	for _, member := range r.members {
		r.must(errors.Join(r.accepts(member, contract.ClientPlane, r.former[contract.ClientPlane], false), r.accepts(member, contract.ClientPlane, old, true)))
	}
	r.delete()
}

// etcdEmergency has both CAs distrusted under clients that read their Secrets again.
func etcdEmergency(s *stage) {
	r := s.rotatedCAs()
	begun := time.Now()
	r.step("distrusted CAs are trusted by nothing", func() error {
		return then(r.etcd.Rotate(r.ctx, "--client-ca", "--peer-ca", "--replace", "--distrust"), r.untilAlone)
	})
	r.figure(report.AtMost("both CAs distrusted", time.Since(begun).Seconds(), maxForDistrust.Seconds(), "s", "from the request until no member trusts the former ones"))
	r.witness()
	r.refusesFormer()
	r.delete()
}

// etcdGrown has two members join while both CAs are replaced.
func etcdGrown(s *stage) {
	r := s.rotatedCAs()
	r.step("the application has a certificate of the new CA", func() error {
		return then(r.etcd.ReplaceCAs(r.ctx), r.untilMoved)
	})
	r.must(r.etcd.Change(r.ctx, map[string]any{"spec": map[string]any{"size": 5}}))
	r.alone()
	r.step("five members are ready", func() error {
		return r.etcd.UntilStatus(r.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool {
			return harness.IsReady(status) && len(status.Members.Ready) == 5
		})
	})
	r.witness()
	r.members = r.allVote(r.etcd, 5)
	r.refusesFormer()
	r.delete()
}

// etcdWrongCAsRestored has the Secrets of CAs restored that were replaced since: they are not used, members serve, and with the right
// ones all is as before.
func etcdWrongCAsRestored(s *stage) {
	r := s.rotatedCAs()
	restoreFormer, err := r.etcd.KeepCAs(r.ctx)
	r.must(err)
	r.replace()
	restoreRight, err := r.etcd.KeepCAs(r.ctx)
	r.must(err)
	r.step("the former CAs are reported", func() error {
		if err := restoreFormer(r.ctx); err != nil {
			return err
		}
		return r.etcd.UntilStatus(r.ctx, func(status etcdv1beta2.EtcdClusterStatus) bool {
			return harness.IsHeldBy(status, string(model.CAChanged))
		})
	})
	r.must(harness.Let(r.ctx, harness.Quiet))
	r.step("ready with the right CAs", func() error {
		return then(restoreRight(r.ctx), func() error { return r.etcd.UntilStatus(r.ctx, harness.IsReady) })
	})
	r.witness()
	r.refusesFormer()
	r.delete()
}
