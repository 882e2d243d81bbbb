package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/report"
)

// JVM is Kafka's own producer, in a pod that mounts the PKCS#12 store as
// applications do. The JVM reads the store when it starts, and never again.
type JVM struct {
	kafka Kafka
	// name of its pod, its ConfigMap and its topic.
	name   string
	stop   context.CancelFunc
	ended  chan struct{}
	failed error

	mu      sync.Mutex
	account JVMAccount
}

const (
	// jvmRate is how many records it sends in a second.
	jvmRate = "20"
	// jvmInterval is how often it speaks at most, in milliseconds. It is less than the
	// time between two records, so that each acknowledgement gets a line of its own.
	jvmInterval = "10"
	// warmWindows is after how many lines a JVM is compiled so far that it measures
	// the cluster and not itself.
	warmWindows = 200
	// steadyGap is the longest gap of steadyTime in which servers are warm: in their
	// first minute they compile themselves, which takes a small machine whole. They
	// are not waited for longer than warmLimit.
	steadyGap  = 250 * time.Millisecond
	steadyTime = 10 * time.Second
	warmLimit  = 3 * time.Minute
	// lastWindows are waited for at the end.
	lastWindows = 20
	// jvmCPU is its share of the machine. With less than a node has, the nodes'
	// handshakes would keep it waiting for the processor, as they do not keep a
	// client on a machine of its own, and it would measure that.
	jvmCPU = "250m"
	// jvmForever are more records than any scenario has time for.
	jvmForever = "100000000"
)

// jvmProperties let batches be so small that the producer turns to another
// partition, and so to another broker, about twice a second, and connections so
// short-lived that each turn is a new handshake with the trust of the JVM's start.
// The store's password is read from its file; it stands in no ConfigMap.
const jvmProperties = `bootstrap.servers=%s-kafka-bootstrap.%s.svc:9093
security.protocol=SSL
ssl.truststore.type=PKCS12
ssl.truststore.location=/ca/ca.p12
ssl.truststore.password=${directory:/ca:ca.password}
config.providers=directory
config.providers.directory.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
acks=all
batch.size=1024
linger.ms=0
connections.max.idle.ms=1000
delivery.timeout.ms=30000
request.timeout.ms=10000
`

// StartJVM starts the client on listener 9093 and waits until it has worked for a
// while, and is served evenly.
func (k Kafka) StartJVM(ctx context.Context) (*JVM, error) {
	image, err := k.image(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := k.Admin(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	name := "jvm-client-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	if err := admin.CreateTopicOf(ctx, name, 3, 3, 2); err != nil {
		return nil, err
	}
	config := &corev1.ConfigMap{ObjectMeta: k.Meta(name), Data: map[string]string{
		"client.properties": fmt.Sprintf(jvmProperties, k.Name, k.Namespace),
	}}
	for _, object := range []client.Object{config, k.jvmPod(name, image)} {
		if err := k.Kube.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("starting the JVM client: %w", err)
		}
	}
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	j := &JVM{kafka: k, name: name, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(j.ended)
		j.failed = j.follow(live)
	}()
	if err := j.until(ctx, warmWindows); err != nil {
		stop()
		return nil, fmt.Errorf("starting the JVM client: %w", err)
	}
	if err := j.untilSteady(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("warming the JVM client up: %w", err)
	}
	return j, nil
}

// untilSteady waits until the client is served evenly. A cluster that never does that
// is measured as it is.
func (j *JVM) untilSteady(ctx context.Context) error {
	warm, cancel := context.WithTimeout(ctx, warmLimit)
	defer cancel()
	begun := time.Now()
	err := Poll(warm, func() (bool, error) {
		select {
		case <-j.ended:
			return false, errors.Join(errStopped, j.failed)
		default:
			now := time.Now()
			gap := j.Account().LongestGap(now.Add(-steadyTime), now).Length
			return now.Sub(begun) >= steadyTime && gap > 0 && gap <= steadyGap, nil
		}
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// image is that of the cluster's nodes.
func (k Kafka) image(ctx context.Context) (string, error) {
	pods := &corev1.PodList{}
	if err := k.Kube.List(ctx, pods, k.of()...); err != nil {
		return "", fmt.Errorf("listing pods of Kafka %s: %w", k.Name, err)
	}
	for i := range pods.Items {
		for _, container := range pods.Items[i].Spec.Containers {
			if container.Name == kafkaContainer {
				return container.Image, nil
			}
		}
	}
	return "", fmt.Errorf("no pod of Kafka %s has a container kafka, whose image the JVM client needs", k.Name)
}

// jvmPod is never started again: a client that has to be is one that failed.
func (k Kafka) jvmPod(name, image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: k.Meta(name), Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(1)),
		AutomountServiceAccountToken:  new(false),
		Containers: []corev1.Container{{
			Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{
				"/opt/kafka/bin/kafka-producer-perf-test.sh", "--topic", name, "--num-records", jvmForever,
				"--throughput", jvmRate, "--record-size", "100", "--reporting-interval", jvmInterval, "--command-config", "/config/client.properties",
			},
			Env: []corev1.EnvVar{{Name: "KAFKA_HEAP_OPTS", Value: "-Xmx96m"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(jvmCPU), corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("384Mi")},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "ca", MountPath: "/ca", ReadOnly: true}, {Name: "config", MountPath: "/config", ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "ca", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: ClusterCA.certSecret(k.Name)}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: name},
			}}},
		},
	}}
}

// errStopped is a client that ended although nobody asked it to.
var errStopped = errors.New("the JVM client has ended by itself")

// follow reads the log until the client is stopped.
func (j *JVM) follow(ctx context.Context) error {
	err := j.kafka.Kube.Follow(ctx, &corev1.PodList{}, func(pods Objects) (bool, error) {
		pod, found := pods[j.name].(*corev1.Pod)
		return found && pod.Status.Phase != corev1.PodPending, nil
	}, client.InNamespace(j.kafka.Namespace), client.MatchingFields{resourceOfName: j.name})
	if err != nil {
		return fmt.Errorf("waiting for the JVM client: %w", err)
	}
	options := &corev1.PodLogOptions{Follow: true, Timestamps: true}
	log, err := j.kafka.Kube.Plain.CoreV1().Pods(j.kafka.Namespace).GetLogs(j.name, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of the JVM client: %w", err)
	}
	defer func() { _ = log.Close() }() // it was only read
	if err := j.read(log); err != nil && ctx.Err() == nil {
		return fmt.Errorf("reading the log of the JVM client: %w", err)
	}
	if ctx.Err() == nil {
		return errStopped
	}
	return nil
}

// read takes lines with the time in front that the kubelet gave them.
func (j *JVM) read(log io.Reader) error {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		stamp, line, _ := strings.Cut(lines.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			continue // the kubelet's own word, not the client's
		}
		j.mu.Lock()
		j.account = j.account.with(at, line)
		j.mu.Unlock()
	}
	return lines.Err()
}

// until waits for so many windows.
func (j *JVM) until(ctx context.Context, windows int) error {
	return Poll(ctx, func() (bool, error) {
		select {
		case <-j.ended:
			return false, errors.Join(errStopped, j.failed)
		default:
			return len(j.Account().Windows) >= windows, nil
		}
	})
}

// Account is what the client has said so far.
func (j *JVM) Account() JVMAccount {
	j.mu.Lock()
	defer j.mu.Unlock()
	account := j.account
	account.Windows = append([]JVMWindow(nil), j.account.Windows...)
	account.Complaints = append([]string(nil), j.account.Complaints...)
	account.Warnings = append([]string(nil), j.account.Warnings...)
	return account
}

// Finish waits for the client's word on what it sent last, ends it, and counts what
// the log has. It fails if the client did not run all the time.
func (j *JVM) Finish(ctx context.Context) (JVMAccount, error) {
	waited := j.until(ctx, len(j.Account().Windows)+lastWindows)
	j.stop()
	<-j.ended
	account := j.Account()
	kept, err := j.kafka.records(ctx, j.name)
	account.Kept = kept
	return account, errors.Join(waited, err, j.remove(ctx))
}

func (j *JVM) remove(ctx context.Context) error {
	return errors.Join(
		client.IgnoreNotFound(j.kafka.Kube.Delete(ctx, &corev1.Pod{ObjectMeta: j.kafka.Meta(j.name)})),
		client.IgnoreNotFound(j.kafka.Kube.Delete(ctx, &corev1.ConfigMap{ObjectMeta: j.kafka.Meta(j.name)})))
}

// records counts what a topic has.
func (k Kafka) records(ctx context.Context, topic string) (uint64, error) {
	admin, err := k.Admin(ctx)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("counting records of topic %s: %w", topic, err)
	}
	var kept uint64
	for _, partition := range ends.Offsets()[topic] {
		kept += uint64(max(partition.At, 0))
	}
	return kept, nil
}

// Client is the account in the form of reports, with the longest gap since a moment.
func (a JVMAccount) Client(since time.Time) report.Client {
	return report.Client{
		Kind: "jvm-pkcs12", Listener: "tls", Sent: a.Acknowledged + a.Failed, Acknowledged: a.Acknowledged,
		Lost: a.Lost() + a.Failed, TLSFailures: a.TLSFailures,
		LongestGapMs: report.Milliseconds(a.LongestGap(since, time.Now()).Length),
	}
}
