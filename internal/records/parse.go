package records

import (
	"errors"
	"time"

	"github.com/keyturn/keyturn/internal/rotation"
)

// Parse are the records in the binary data of a ConfigMap that are of a cluster and from no time to come, by their domains. One that
// cannot be read is not gone on from.
func Parse(data map[string][]byte, cluster string, words map[string]*rotation.Words, now time.Time) map[string]rotation.Record {
	found := map[string]rotation.Record{}
	for domain, of := range words {
		record, err := of.Parse(data[rotation.Key(domain)])
		isOurs := record.Cluster == cluster && record.Domain == domain
		if err == nil && isOurs && !record.Snapshot.Now.After(now) && !record.StartedAt.After(now) {
			found[domain] = record
		}
	}
	return found
}

// Encode are the binary data of a ConfigMap with records. One that is too long is left out, because an older one in its place would tell
// people something else than what is done; the error, a rotation.TooLongError, then says so.
func Encode(records []rotation.Record) (map[string][]byte, error) {
	data, long := map[string][]byte{}, error(nil)
	for _, record := range records {
		encoded, err := record.Encode()
		if _, isLong := errors.AsType[*rotation.TooLongError](err); isLong {
			long = errors.Join(long, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		data[rotation.Key(record.Domain)] = encoded
	}
	return data, long
}
