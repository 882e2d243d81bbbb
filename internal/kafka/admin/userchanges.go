package admin

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/principal"
)

// A SCRAM credential as Strimzi makes it: Kafka wants 4096 iterations at least.
const (
	scramSHA512     = int8(2)
	scramIterations = 4096
	scramSaltBytes  = 24
	// revokedIterations mark a credential that was revoked: Kafka tells the number, and people use round ones.
	revokedIterations = scramIterations + 1
)

// CreateACLs creates the ACLs of a user in one request.
func (k *Kafka) CreateACLs(ctx context.Context, user string, acls []principal.ACL) error {
	if len(acls) == 0 {
		return nil
	}
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, acl := range acls {
		creation := kmsg.NewCreateACLsRequestCreation()
		creation.ResourceType, creation.ResourceName = kmsg.ACLResourceType(acl.Type), acl.Name
		creation.ResourcePatternType, creation.Principal = kmsg.ACLResourcePatternType(acl.Pattern), userPrincipal+user
		creation.Host, creation.Operation = acl.Host, kmsg.ACLOperation(acl.Operation)
		creation.PermissionType = kmsg.ACLPermissionType(acl.Permission)
		req.Creations = append(req.Creations, creation)
	}
	doing := "creating ACLs of " + user
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return k.failed(doing, err)
	}
	for _, result := range resp.Results {
		if err := k.changed(doing, result.ErrorCode, result.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// DeleteACLs deletes the ACLs of a user in one request, each by all of its parts.
func (k *Kafka) DeleteACLs(ctx context.Context, user string, acls []principal.ACL) error {
	if len(acls) == 0 {
		return nil
	}
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, acl := range acls {
		filter := kmsg.NewDeleteACLsRequestFilter()
		filter.ResourceType, filter.ResourceName = kmsg.ACLResourceType(acl.Type), new(acl.Name)
		filter.ResourcePatternType, filter.Principal = kmsg.ACLResourcePatternType(acl.Pattern), new(userPrincipal+user)
		filter.Host, filter.Operation = new(acl.Host), kmsg.ACLOperation(acl.Operation)
		filter.PermissionType = kmsg.ACLPermissionType(acl.Permission)
		req.Filters = append(req.Filters, filter)
	}
	doing := "deleting ACLs of " + user
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return k.failed(doing, err)
	}
	for _, result := range resp.Results {
		failures := []error{k.changed(doing, result.ErrorCode, result.ErrorMessage)}
		for _, deleted := range result.MatchingACLs {
			failures = append(failures, k.changed(doing, deleted.ErrorCode, deleted.ErrorMessage))
		}
		if err := errors.Join(failures...); err != nil {
			return err
		}
	}
	return nil
}

// AlterQuotas sets and takes away quotas of a user in one request.
func (k *Kafka) AlterQuotas(ctx context.Context, user string, set map[principal.Quota]float64, unset []principal.Quota) error {
	if len(set)+len(unset) == 0 {
		return nil
	}
	ctx, cancel := k.within(ctx)
	defer cancel()
	entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
	entity.Type, entity.Name = userEntity, &user
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entry.Entity = append(entry.Entity, entity)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		entry.Ops = append(entry.Ops, kmsg.AlterClientQuotasRequestEntryOp{Key: string(key), Value: set[key]})
	}
	for _, key := range unset {
		entry.Ops = append(entry.Ops, kmsg.AlterClientQuotasRequestEntryOp{Key: string(key), Remove: true})
	}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = append(req.Entries, entry)
	doing := "altering quotas of " + user
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return k.failed(doing, err)
	}
	for _, result := range resp.Entries {
		if err := k.changed(doing, result.ErrorCode, result.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// UpsertPassword sends a salted hash: the password itself never leaves the operator.
func (k *Kafka) UpsertPassword(ctx context.Context, user, password string) error {
	salt := random(scramSaltBytes)
	hash, err := pbkdf2.Key(sha512.New, password, salt, scramIterations, sha512.Size)
	if err != nil {
		return fmt.Errorf("hashing the password of %s: %w", user, err)
	}
	return k.alterPassword(ctx, "setting the password of "+user, kmsg.AlterUserSCRAMCredentialsRequestUpsertion{
		Name: user, Mechanism: scramSHA512, Iterations: scramIterations, Salt: salt, SaltedPassword: hash,
	})
}

// RevokePassword sets what is the hash of no password that is known.
func (k *Kafka) RevokePassword(ctx context.Context, user string) error {
	return k.alterPassword(ctx, "revoking the password of "+user, kmsg.AlterUserSCRAMCredentialsRequestUpsertion{
		Name: user, Mechanism: scramSHA512, Iterations: revokedIterations,
		Salt: random(scramSaltBytes), SaltedPassword: random(sha512.Size),
	})
}

func random(length int) []byte {
	bytes := make([]byte, length)
	_, _ = rand.Read(bytes) // it never fails
	return bytes
}

func (k *Kafka) alterPassword(ctx context.Context, doing string, to kmsg.AlterUserSCRAMCredentialsRequestUpsertion) error {
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	req.Upsertions = append(req.Upsertions, to)
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return k.failed(doing, err)
	}
	for _, result := range resp.Results {
		if err := k.changed(doing, result.ErrorCode, result.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}
