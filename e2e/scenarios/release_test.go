package scenarios

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
)

// operatorChanged: an operator is installed with kubectl from the files of a release, handed to Helm, upgraded to the next
// release, rolled back, uninstalled and installed with kubectl again, while clients work.
func operatorChanged(s *stage) {
	s.must(s.onlyOnBed())
	s.withoutKeyturn()
	before, next := s.release("0.1.0"), s.release("0.2.0")
	shellBefore, shellNext := s.shellIn(before), s.shellIn(next)
	s.must(s.kube.CreateNamespace(s.ctx, s.kafka.Namespace))
	const applied = "kubectl apply -f keyturn.yaml\nkubectl rollout status --namespace keyturn deployment/keyturn --timeout=3m\n"
	s.typed(shellBefore, "installed with kubectl", "kubectl apply --server-side --force-conflicts -f keyturn-crds.yaml\n"+applied)
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.apply(manifest)
	pods := s.podsOfNodes()
	s.underLoad(harness.EveryKind()...)

	for _, change := range []struct {
		by             harness.Shell
		what, commands string
	}{
		{shellBefore, "handed to Helm", fmt.Sprintf("helm upgrade keyturn keyturn-%s.tgz --install --namespace keyturn --take-ownership --force-conflicts --wait\n", before.Version)},
		{shellNext, "upgraded", fmt.Sprintf("helm upgrade keyturn keyturn-%s.tgz --namespace keyturn --reset-then-reuse-values --set image.tag= --set image.digest= --force-conflicts --wait\n", next.Version)},
		{shellNext, "rolled back", "helm rollback keyturn --namespace keyturn --force-conflicts --wait\n"},
		{shellNext, "uninstalled", "helm uninstall keyturn --namespace keyturn --wait\n"},
		{shellBefore, "installed with kubectl again", applied},
	} {
		s.load.SetPhase(change.what)
		s.typed(change.by, change.what, change.commands)
		s.must(harness.Let(s.ctx, harness.Quiet))
	}
	s.typed(shellBefore, "the key of the cluster CA is replaced by the operator that came last", fmt.Sprintf(
		"tar -xzf kubectl-keyturn-linux-amd64.tar.gz kubectl-keyturn\nkubectl keyturn rotate kafka/%s --namespace %s --cluster-ca --watch\n",
		s.kafka.Name, s.kafka.Namespace))
	s.generationIs("1", harness.ClusterCA)
	s.step("settled", func() error { return s.kafka.UntilSettled(s.ctx) })
	s.quietly()
	if now := s.podsOfNodes(); !maps.Equal(now, pods) {
		s.Errorf("the pods are %v, and were %v", now, pods)
	}
	s.noContainerRestarted()
}

// withoutKeyturn takes away what the scenarios have installed until the scenario has ended, and its namespace with it.
func (s *stage) withoutKeyturn() {
	s.Helper()
	s.shared.remove(s.ctx)
	s.must(s.kube.DeleteNamespace(s.ctx, s.kafka.Namespace))
	s.Cleanup(func() {
		ctx := context.WithoutCancel(s.ctx)
		if err := s.kube.Install(ctx, s.journal); err != nil {
			s.Error(err)
		}
		if err := s.kube.DeleteNamespace(ctx, s.kafka.Namespace); err != nil {
			s.Error(err)
		}
	})
	s.step("Keyturn is not installed", func() error { return s.kube.Uninstall(s.ctx) })
}

// release makes the release of a version.
func (s *stage) release(version string) harness.Release {
	s.Helper()
	var made harness.Release
	begun := time.Now()
	s.step("release "+version+" is made", func() error {
		var err error
		made, err = s.kube.MakeRelease(s.ctx, version, filepath.Join(s.TempDir(), "release"))
		return err
	})
	s.took(begun, "release "+version+" made", "for this machine alone")
	return made
}

// shellIn is the shell of a person in the folder of a release.
func (s *stage) shellIn(release harness.Release) harness.Shell {
	s.Helper()
	shell, err := release.Shell(s.ctx, s.TempDir())
	s.must(err)
	return shell
}

func (s *stage) typed(shell harness.Shell, what, commands string) {
	s.Helper()
	s.step(what, func() error {
		_, err := shell.Type(s.ctx, commands)
		return err
	})
}
