package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
)

// Versions of the two requests, which Kafka answers since 2.8.
const (
	describeVersion = 4
	alterVersion    = 1
)

// Setting is one setting of the server.
type Setting struct {
	// Effective is the value the server runs on.
	Effective string
	// Dynamic is the value in the metadata for this node, nil when there is none.
	// It differs from Effective while the server has not applied it, or if it
	// could not.
	Dynamic *string
}

// Change is a new dynamic value of a setting for this node; nil deletes it.
type Change struct {
	Name  string
	Value *string
}

// InvalidError says that the server refuses a change for what it contains.
type InvalidError struct {
	Err error
	// Message is the server's own.
	Message string
}

func (e *InvalidError) Error() string {
	if e.Message == "" {
		return e.Err.Error()
	}
	return e.Message
}

// Unwrap returns Kafka's error.
func (e *InvalidError) Unwrap() error { return e.Err }

// Settings asks the server for the settings with the names. Those that are not
// set are not in the answer.
//
// In a node that is both, broker and controller each run on a configuration of
// their own: only the controller knows what the control plane's listener has.
func (c *Client) Settings(ctx context.Context, names []string) (map[string]Setting, error) {
	settings := map[string]Setting{}
	for listener, names := range c.server.answering(names) {
		err := c.ask(ctx, listener, func(ctx context.Context, conn *wire.Conn) error {
			return c.describe(ctx, conn, names, settings)
		})
		if err != nil {
			return nil, fmt.Errorf("asking the server for its dynamic settings: %w", err)
		}
	}
	return settings, nil
}

// answering returns which listener is asked for which of the names.
func (s Server) answering(names []string) map[publication.Role][]string {
	asked := map[publication.Role][]string{}
	for _, name := range names {
		listener := s.Main()
		if strings.HasPrefix(name, fmt.Sprintf("listener.name.%s.", contract.ControlPlaneListener)) &&
			slices.Contains(s.Roles, contract.RoleController) {
			listener = contract.ControlPlaneListener
		}
		asked[listener] = append(asked[listener], name)
	}
	return asked
}

func (c *Client) describe(ctx context.Context, conn *wire.Conn, names []string, into map[string]Setting) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = describeVersion, true
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, c.resource()
	resource.ConfigNames = names
	req.Resources = append(req.Resources, resource)
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := answer.(*kmsg.DescribeConfigsResponse)
	if !ok || len(resp.Resources) != 1 {
		return errAnswer
	}
	return readSettings(resp.Resources[0], into)
}

func readSettings(resource kmsg.DescribeConfigsResponseResource, into map[string]Setting) error {
	if err := kerr.ErrorForCode(resource.ErrorCode); err != nil {
		return err
	}
	for _, config := range resource.Configs {
		var setting Setting
		if config.Value != nil {
			setting.Effective = *config.Value
		}
		for _, synonym := range config.ConfigSynonyms {
			if synonym.Name == config.Name && synonym.Source == kmsg.ConfigSourceDynamicBrokerConfig {
				setting.Dynamic = synonym.Value
			}
		}
		into[config.Name] = setting
	}
	return nil
}

func (c *Client) resource() string { return strconv.Itoa(int(c.server.NodeID)) }

// Alter makes the changes. Without an error they are in the metadata, and the server applies
// them a moment later. An InvalidError means that a broker has tested a store and cannot load it,
// and that nothing has changed; a controller tests none. After other errors the outcome is unknown.
func (c *Client) Alter(ctx context.Context, changes []Change) error {
	if err := c.alter(ctx, c.alteration(changes)); err != nil {
		return fmt.Errorf("setting: %w", err)
	}
	return nil
}

func (c *Client) alteration(changes []Change) *kmsg.IncrementalAlterConfigsRequest {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, c.resource()
	for _, change := range changes {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value, config.Op = change.Name, change.Value, kmsg.IncrementalAlterConfigOpSet
		if change.Value == nil {
			config.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		resource.Configs = append(resource.Configs, config)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = alterVersion
	req.Resources = append(req.Resources, resource)
	return req
}

// alter sends the request to the node itself. A controller that does not lead
// takes no changes: then those that might lead are asked.
func (c *Client) alter(ctx context.Context, req *kmsg.IncrementalAlterConfigsRequest) error {
	question := func(ctx context.Context, conn *wire.Conn) error { return change(ctx, conn, req) }
	main := c.server.Main()
	err := c.ask(ctx, main, question)
	if main != contract.ControlPlaneListener {
		return err
	}
	for _, voter := range c.server.Voters {
		if !errors.Is(err, kerr.NotController) {
			return err
		}
		err = c.askVoter(ctx, voter, question)
		if _, gone := errors.AsType[*mtls.UnreachableError](err); gone {
			err = kerr.NotController // it does not lead either
		}
	}
	return err
}

func (c *Client) askVoter(ctx context.Context, address string, question Question) error {
	ctx, cancel := context.WithTimeout(ctx, c.server.Limit)
	defer cancel()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address of a controller: %w", err)
	}
	conn, err := c.server.open(ctx, address, mtls.Peer{Name: host}, c.server.Known(), question)
	if err != nil {
		return err
	}
	return conn.Close()
}

func change(ctx context.Context, conn *wire.Conn, req *kmsg.IncrementalAlterConfigsRequest) error {
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := answer.(*kmsg.IncrementalAlterConfigsResponse)
	if !ok || len(resp.Resources) != 1 {
		return errAnswer
	}
	resource := resp.Resources[0]
	err = kerr.ErrorForCode(resource.ErrorCode)
	if isInvalid(err) {
		invalid := &InvalidError{Err: err}
		if resource.ErrorMessage != nil {
			invalid.Message = *resource.ErrorMessage
		}
		return invalid
	}
	return err
}

func isInvalid(err error) bool {
	return errors.Is(err, kerr.InvalidRequest) || errors.Is(err, kerr.InvalidConfig) || errors.Is(err, kerr.PolicyViolation)
}
