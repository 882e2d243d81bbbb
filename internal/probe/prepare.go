package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/keyturn/keyturn/internal/pki"
)

const (
	wantedReplicas  = 3
	scramIterations = 4096
)

// preparation is what a probe made in the cluster and takes away at its end.
type preparation struct {
	client *kgo.Client
	admin  *kadm.Client
	prefix string
	topics []string
	grants *kadm.ACLBuilder
	// courses are those of the clients, in their order.
	courses []course
	logins  []string
}

func topicPrefix(run string) string { return "keyturn-probe-" + run + "-" }

// prepare creates a topic per client, and what rights and logins they need.
func prepare(ctx context.Context, options Options) (*preparation, error) {
	identity := options.Clients[0].Identity
	if options.Admin != nil {
		identity = *options.Admin
	}
	admin := Client{Kind: "admin", Identity: identity}
	client, err := kgo.NewClient(admin.options(options.Network, func(string, error) {})...)
	if err != nil {
		return nil, fmt.Errorf("making admin client: %w", err)
	}
	p := &preparation{client: client, admin: kadm.NewClient(client), prefix: topicPrefix(options.Run)}
	if err := p.make(ctx, options); err != nil {
		return nil, errors.Join(err, p.close(context.WithoutCancel(ctx), options))
	}
	return p, nil
}

func (p *preparation) make(ctx context.Context, options Options) error {
	if options.Topic.Name != "" {
		return p.share(ctx, options.Topic, options.Clock)
	}
	for _, client := range options.Clients {
		topic := p.prefix + client.name()
		p.topics = append(p.topics, topic)
		p.courses = append(p.courses, course{topic: topic, partitions: ownPartitions()})
	}
	if err := p.createTopics(ctx); err != nil {
		return err
	}
	if err := p.createLogins(ctx, options.Logins); err != nil {
		return err
	}
	return p.grant(ctx, options.Grants)
}

func (p *preparation) createTopics(ctx context.Context) error {
	brokers, err := p.admin.ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("counting brokers: %w", err)
	}
	replicas := min(wantedReplicas, len(brokers))
	inSync := strconv.Itoa(max(1, replicas-1))
	forever := "-1"
	configs := map[string]*string{"min.insync.replicas": &inSync, "retention.ms": &forever}
	created, err := p.admin.CreateTopics(ctx, partitions, int16(replicas), configs, p.topics...)
	if err != nil {
		return fmt.Errorf("creating topics %s*: %w", p.prefix, err)
	}
	for _, topic := range created.Sorted() {
		if topic.Err != nil && !errors.Is(topic.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("creating topic %s: %w", topic.Topic, topic.Err)
		}
	}
	return nil
}

func (p *preparation) createLogins(ctx context.Context, logins []Login) error {
	for _, login := range logins {
		p.logins = append(p.logins, login.User)
		if err := p.setPassword(ctx, login); err != nil {
			return err
		}
	}
	return nil
}

// setPassword makes a SCRAM user, or gives it another password.
func (p *preparation) setPassword(ctx context.Context, login Login) error {
	result, err := p.admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{
		User: login.User, Password: login.Password,
		Mechanism: kadm.ScramSha512, Iterations: scramIterations,
	}})
	if err == nil {
		err = result.Error()
	}
	if err != nil {
		return fmt.Errorf("setting the password of SCRAM user %s: %w", login.User, err)
	}
	return nil
}

// lockLogins gives the users a password that is not kept. They are not deleted, because Kafka up to 4.3.1
// may forget all SCRAM users when it starts after a deletion. org.apache.kafka.image.ScramDelta drops a
// mechanism that looks empty during a change; a probe must not lock clients out.
func (p *preparation) lockLogins(ctx context.Context) error {
	problems := make([]error, 0, len(p.logins))
	for _, user := range p.logins {
		password, err := pki.NewPassword()
		if err == nil {
			err = p.setPassword(ctx, Login{User: user, Password: password})
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// grant gives principals their rights on the probe's topics. A cluster that does
// not authorise refuses to keep rules, and needs none.
func (p *preparation) grant(ctx context.Context, principals []string) error {
	if len(principals) == 0 {
		return nil
	}
	users := make([]string, 0, len(principals))
	for _, principal := range principals {
		users = append(users, "User:"+principal)
	}
	grants := kadm.NewACLs().Allow(users...).AllowHosts("*").Topics(p.prefix).
		ResourcePatternType(kadm.ACLPatternPrefixed).
		Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	results, err := p.admin.CreateACLs(ctx, grants)
	if err != nil {
		return fmt.Errorf("granting rights on topics %s*: %w", p.prefix, err)
	}
	for _, result := range results {
		if errors.Is(result.Err, kerr.SecurityDisabled) {
			return nil
		}
		if result.Err != nil {
			return fmt.Errorf("granting %s rights on topics %s*: %w", result.Principal, p.prefix, result.Err)
		}
	}
	p.grants = kadm.NewACLs().Allow(users...).AllowHosts("*").Topics(p.prefix).
		ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpAny)
	return nil
}

// close takes away what was made, as far as it goes, and says what did not.
func (p *preparation) close(ctx context.Context, options Options) error {
	defer p.client.Close()
	ctx, cancel := context.WithTimeout(ctx, options.Deadline)
	defer cancel()
	var problems []error
	if p.grants != nil {
		_, err := p.admin.DeleteACLs(ctx, p.grants)
		problems = append(problems, err)
	}
	problems = append(problems, p.lockLogins(ctx))
	if len(p.topics) > 0 && !options.KeepTopics {
		_, err := p.admin.DeleteTopics(ctx, p.topics...)
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("cleaning up after the probe: %w", err)
	}
	return nil
}
