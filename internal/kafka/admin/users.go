package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/principal"
)

// UsersClient reads and changes what Kafka holds for users. Every change may be repeated: what is so already is no
// error. The errors are those of Client; what Kafka does not accept is a RejectedError.
type UsersClient interface {
	UsersActor
	// DescribeUsers tells what Kafka holds for all users that it holds something for.
	DescribeUsers(ctx context.Context) (Users, error)
}

// UsersActor changes what Kafka holds for one user, and for no other. Where nothing is to be changed, nothing is sent.
type UsersActor interface {
	CreateACLs(ctx context.Context, user string, acls []principal.ACL) error
	DeleteACLs(ctx context.Context, user string, acls []principal.ACL) error
	// AlterQuotas sets quotas of a user, and takes others away.
	AlterQuotas(ctx context.Context, user string, set map[principal.Quota]float64, unset []principal.Quota) error
	// UpsertPassword makes a password the one that Kafka accepts from a user, by SCRAM-SHA-512.
	UpsertPassword(ctx context.Context, user, password string) error
	// RevokePassword makes Kafka accept no password from a user. The credential is not deleted: Kafka up to 4.3.1 that
	// starts after a deletion forgets those of all users.
	RevokePassword(ctx context.Context, user string) error
}

var _ UsersClient = (*Kafka)(nil)

// Users is what Kafka holds for users.
type Users struct {
	// Held is by user name, as ACLs have it without "User:". The defaults for all users are left out.
	Held map[string]principal.Held
	// Authorizes: the cluster has an authorizer. Without one there are no ACLs, and none can be created.
	Authorizes bool
}

// RejectedError says that Kafka does not accept a change.
type RejectedError struct {
	// Doing is what was tried, Message what Kafka says about it.
	Doing, Message string
	Err            *kerr.Error
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Doing, e.Err.Message, excerpt.Of(e.Message, excerpt.Foreign))
}

// Unwrap returns Kafka's error.
func (e *RejectedError) Unwrap() error { return e.Err }

// IsUnauthorized reports whether an error says that Kafka knows the operator and does not let it do this.
func IsUnauthorized(err error) bool {
	return errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed)
}

const (
	userPrincipal = "User:"
	userEntity    = "user"
)

// DescribeUsers asks for ACLs, quotas and SCRAM credentials of all users.
func (k *Kafka) DescribeUsers(ctx context.Context) (Users, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	users := collection{}
	authorizes, err := k.describeACLs(ctx, users)
	if err != nil {
		return Users{}, err
	}
	if err := k.describeQuotas(ctx, users); err != nil {
		return Users{}, err
	}
	if err := k.describePasswords(ctx, users); err != nil {
		return Users{}, err
	}
	return Users{Held: users.sorted(), Authorizes: authorizes}, nil
}

// collection gathers what is held by user name.
type collection map[string]principal.Held

func (c collection) change(user string, to func(*principal.Held)) {
	held := c[user]
	to(&held)
	c[user] = held
}

func (c collection) sorted() map[string]principal.Held {
	for user := range c {
		c.change(user, func(h *principal.Held) { h.ACLs = principal.Sorted(h.ACLs) })
	}
	return c
}

func (k *Kafka) describeACLs(ctx context.Context, into collection) (authorizes bool, err error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp, err := req.RequestWith(ctx, k.brokers)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if errors.Is(err, kerr.SecurityDisabled) {
		return false, nil
	}
	if err != nil {
		return false, k.failed("describing ACLs", err)
	}
	for _, resource := range resp.Resources {
		for _, acl := range resource.ACLs {
			user, isUser := strings.CutPrefix(acl.Principal, userPrincipal)
			if !isUser {
				continue
			}
			into.change(user, func(h *principal.Held) {
				h.ACLs = append(h.ACLs, principal.ACL{
					Type: principal.ResourceType(resource.ResourceType), Name: resource.ResourceName,
					Pattern: principal.Pattern(resource.ResourcePatternType), Host: acl.Host,
					Operation: principal.Operation(acl.Operation), Permission: principal.Permission(acl.PermissionType),
				})
			})
		}
	}
	return true, nil
}

func (k *Kafka) describeQuotas(ctx context.Context, into collection) error {
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	component := kmsg.NewDescribeClientQuotasRequestComponent()
	component.EntityType, component.MatchType = userEntity, kmsg.QuotasMatchTypeAny
	req.Components, req.Strict = append(req.Components, component), true
	resp, err := req.RequestWith(ctx, k.brokers)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return k.failed("describing quotas", err)
	}
	for _, entry := range resp.Entries {
		if len(entry.Entity) != 1 || entry.Entity[0].Type != userEntity || entry.Entity[0].Name == nil {
			continue
		}
		into.change(*entry.Entity[0].Name, func(h *principal.Held) {
			h.Quotas = make(map[principal.Quota]float64, len(entry.Values))
			for _, value := range entry.Values {
				h.Quotas[principal.Quota(value.Key)] = value.Value
			}
		})
	}
	return nil
}

// describePasswords asks every broker: Kafka up to 4.3.1 that starts after a credential was deleted has none, and the
// others still have all. A password is there if all that answer have it.
func (k *Kafka) describePasswords(ctx context.Context, into collection) error {
	brokers, err := k.brokerIDs(ctx)
	if err != nil {
		return k.failed("listing brokers", err)
	}
	answers := make([]map[string]credentials, len(brokers))
	failures := make([]error, len(brokers))
	var asking sync.WaitGroup
	for i, id := range brokers {
		asking.Go(func() { answers[i], failures[i] = passwordsOf(ctx, pinned{k.brokers.Broker(int(id))}) })
	}
	asking.Wait()
	answered := slices.DeleteFunc(answers, func(answer map[string]credentials) bool { return answer == nil })
	if len(answered) == 0 {
		return k.failed("describing SCRAM credentials", errors.Join(failures...))
	}
	for _, answer := range answered {
		for user, has := range answer {
			into.change(user, func(h *principal.Held) {
				h.HasOther = h.HasOther || has.other
				h.HasPassword = !slices.ContainsFunc(answered, func(a map[string]credentials) bool { return !a[user].password })
			})
		}
	}
	return nil
}

// brokerIDs are the brokers that take part.
func (k *Kafka) brokerIDs(ctx context.Context) ([]int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, 0, len(resp.Brokers))
	for _, broker := range resp.Brokers {
		ids = append(ids, broker.NodeID)
	}
	if len(ids) == 0 {
		return nil, errNoBroker
	}
	return ids, nil
}

// credentials tell what a broker has of a user.
type credentials struct{ password, other bool }

// passwordsOf asks one broker.
func passwordsOf(ctx context.Context, broker kmsg.Requestor) (map[string]credentials, error) {
	resp, err := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest().RequestWith(ctx, broker)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	users := make(map[string]credentials, len(resp.Results))
	for _, result := range resp.Results {
		if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
			return nil, fmt.Errorf("user %s: %w", excerpt.Of(result.User, excerpt.Foreign), err)
		}
		var has credentials
		for _, info := range result.CredentialInfos {
			isRevoked := info.Mechanism == scramSHA512 && info.Iterations == revokedIterations
			has.password = has.password || info.Mechanism == scramSHA512 && !isRevoked
			has.other = has.other || info.Mechanism != scramSHA512
		}
		users[result.User] = has
	}
	return users, nil
}

// changed is what came of one part of a change.
func (k *Kafka) changed(doing string, code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil {
		return nil
	}
	kafka, is := errors.AsType[*kerr.Error](err)
	if !is || kafka.Retriable || isRefusal(kafka) {
		return k.failed(doing, err)
	}
	rejected := &RejectedError{Doing: doing, Err: kafka}
	if message != nil {
		rejected.Message = *message
	}
	return rejected
}
