package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// metadataVersionFeature is the name of metadata.version among the features.
const metadataVersionFeature = "metadata.version"

// upgradeOnly makes UpdateFeatures refuse to lower a level.
const upgradeOnly = 1

// timeoutMillis is how long a controller may take over a change. The client's
// own deadline is the shorter one.
const timeoutMillis = 30_000

// Cluster asks for registered brokers, fenced ones included (KIP-1073, since
// Kafka 4.0; brokers before that leave them out).
func (k *Kafka) Cluster(ctx context.Context) (Cluster, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, k.brokers)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return Cluster{}, k.failed("describing the cluster", err)
	}
	cluster := Cluster{ID: resp.ClusterID, Brokers: make([]Broker, 0, len(resp.Brokers))}
	for _, b := range resp.Brokers {
		cluster.Brokers = append(cluster.Brokers, Broker{ID: b.NodeID, Host: b.Host, Port: b.Port, Fenced: b.IsFenced})
	}
	slices.SortFunc(cluster.Brokers, func(a, b Broker) int { return int(a.ID) - int(b.ID) })
	return cluster, nil
}

// UnregisterBroker removes the registration of a broker.
func (k *Kafka) UnregisterBroker(ctx context.Context, id int32) error {
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	resp, err := req.RequestWith(ctx, k.brokers)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if errors.Is(err, kerr.BrokerIDNotRegistered) {
		return &UnknownBrokerError{ID: id}
	}
	if err != nil {
		return k.failed(fmt.Sprintf("unregistering broker %d", id), err)
	}
	return nil
}

// Features asks a broker for the finalized features it has read.
func (k *Kafka) Features(ctx context.Context) (Features, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = clientID, "1"
	resp, err := req.RequestWith(ctx, k.brokers)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return Features{}, k.failed("reading the finalized features", err)
	}
	features := Features{Finalized: make(map[string]int16, len(resp.FinalizedFeatures))}
	for _, f := range resp.FinalizedFeatures {
		features.Finalized[f.Name] = f.MaxVersionLevel
	}
	features.MetadataVersion = features.Finalized[metadataVersionFeature]
	return features, nil
}

// UpdateMetadataVersion finalizes a higher metadata.version.
func (k *Kafka) UpdateMetadataVersion(ctx context.Context, level int16) error {
	features, err := k.Features(ctx)
	if err != nil {
		return err
	}
	if features.MetadataVersion == level {
		return nil // Kafka would refuse an upgrade that is none
	}
	ctx, cancel := k.within(ctx)
	defer cancel()
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = metadataVersionFeature, level, upgradeOnly
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis = timeoutMillis
	req.FeatureUpdates = append(req.FeatureUpdates, update)
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return k.failed("updating metadata.version", err)
	}
	return k.readUpdate(level, resp)
}

func (k *Kafka) readUpdate(level int16, resp *kmsg.UpdateFeaturesResponse) error {
	code, message := resp.ErrorCode, resp.ErrorMessage
	for _, result := range resp.Results { // up to version 1 of the answer
		if code == 0 {
			code, message = result.ErrorCode, result.ErrorMessage
		}
	}
	err := kerr.ErrorForCode(code)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.InvalidUpdateVersion), errors.Is(err, kerr.FeatureUpdateFailed):
		return &UnsupportedFeatureError{Level: level, Reason: reason(message, err)}
	default:
		return k.failed("updating metadata.version", err)
	}
}

func reason(message *string, err error) string {
	if message == nil || *message == "" {
		return err.Error()
	}
	return excerpt.Of(*message, excerpt.Foreign)
}
