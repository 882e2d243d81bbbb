package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
)

// Names of the containers of the operators beside the nodes.
const (
	UserOperatorContainer  = "user-operator"
	TopicOperatorContainer = "topic-operator"
)

// operatorTemplate is what the user adds to the pod of the operators beside the nodes, in the form of server-side apply.
type operatorTemplate struct {
	pullSecrets []corev1.LocalObjectReference
	// pod is nil where nothing is added.
	pod *coreac.PodSpecApplyConfiguration
	// env is the environment of containers by their names.
	env map[string][]coreac.EnvVarApplyConfiguration
}

// podSpec is a copy that may be added to.
func (t operatorTemplate) podSpec() *coreac.PodSpecApplyConfiguration {
	if t.pod == nil {
		return coreac.PodSpec()
	}
	spec := *t.pod
	return &spec
}

func (r *resolver) resolveOperatorTemplate(template *kafkav1.EntityOperatorTemplate) operatorTemplate {
	resolved := operatorTemplate{pullSecrets: r.in.Settings.PullSecrets}
	if template == nil {
		return resolved
	}
	const path = "spec.entityOperator.template"
	if pod := template.Pod; pod != nil {
		pulling := &kafkav1.PodTemplate{ImagePullSecrets: pod.ImagePullSecrets}
		r.checkTemplate(r.kafkaObject(), path, pulling)
		resolved.pullSecrets = r.in.Settings.pullSecrets(pulling)
		resolved.pod = coreac.PodSpec()
		if err := inForm(schedulingOf(pod), resolved.pod); err != nil {
			r.errorf(r.kafkaObject(), "%s.pod cannot be read: %v: correct it", path, err)
		}
	}
	resolved.env = map[string][]coreac.EnvVarApplyConfiguration{
		UserOperatorContainer:  r.resolveEnv(path+".userOperatorContainer", template.UserOperatorContainer),
		TopicOperatorContainer: r.resolveEnv(path+".topicOperatorContainer", template.TopicOperatorContainer),
	}
	return resolved
}

// schedulingOf is where the pod of the operators may run.
func schedulingOf(pod *kafkav1.OperatorPodTemplate) any {
	scheduling := *pod
	scheduling.ImagePullSecrets = nil
	return scheduling
}

// resolveEnv refuses the variables by which an operator could be directed to another API server, or to weaker TLS.
func (r *resolver) resolveEnv(path string, template *kafkav1.OperatorContainerTemplate) []coreac.EnvVarApplyConfiguration {
	if template == nil {
		return nil
	}
	var env []coreac.EnvVarApplyConfiguration
	if err := inForm(template.Env, &env); err != nil {
		r.errorf(r.kafkaObject(), "%s.env cannot be read: %v: correct it", path, err)
		return nil
	}
	var names []string
	for _, variable := range env {
		name := ""
		if variable.Name != nil {
			name = *variable.Name
		}
		switch {
		case name == "":
			r.errorf(r.kafkaObject(), "%s.env has a variable without a name: name it, or remove it", path)
		case slices.Contains(names, name):
			r.errorf(r.kafkaObject(), "%s.env has %s twice: remove one of the two", path, name)
		case variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil:
			r.errorf(r.kafkaObject(), "%s.env must not take %s from a Secret, because any client that may write the Kafka could then read every Secret of the namespace: write the value, or remove the variable",
				path, name)
		case isReservedEnv(name):
			r.errorf(r.kafkaObject(), "%s.env must not have %s, because it changes which servers the operator trusts or uses: remove it", path, name)
		}
		names = append(names, name)
	}
	r.warnUnreadEnv(path, names)
	return env
}

// warnUnreadEnv names the variables by which Strimzi's operators are told what to do.
func (r *resolver) warnUnreadEnv(path string, names []string) {
	unread := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, "STRIMZI_") })
	if len(unread) == 0 {
		return
	}
	slices.Sort(unread)
	r.findings.Warnings = append(r.findings.Warnings, Finding{
		Object: r.kafkaObject(), Part: path, Reason: ReasonDiffersFromSpec,
		Message: fmt.Sprintf("%s.env has variables that Keyturn's operators do not read: %s; check that you can do without what they ask for, and remove them",
			path, excerpt.List(unread, ", ", excerpt.Listed)),
	})
}

func isReservedEnv(name string) bool {
	return name == "GODEBUG" || name == "KUBECONFIG" || strings.HasPrefix(name, "SSL_CERT_") ||
		strings.HasPrefix(name, "KEYTURN_") || strings.HasPrefix(name, "KUBERNETES_")
}

// inForm reads what is written in a Kafka into a type for server-side apply.
func inForm(from, into any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	return nil
}
