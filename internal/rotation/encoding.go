package rotation

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// format is the version of the encoding. Records of every other version are rejected.
const format = 2

// stored is a record as it is written.
type stored struct {
	Record

	Format int `json:"format"`
}

// Encode renders the record as JSON that is compressed by gzip. Equal records have equal encodings. A TooLongError says that the record
// has more than is read of one.
func (r Record) Encode() ([]byte, error) {
	text, err := r.text()
	if err != nil {
		return nil, fmt.Errorf("encoding the record of the %s of %s: %w", r.Domain, r.Cluster, err)
	}
	if err := checkSize(text); err != nil {
		return nil, &TooLongError{Domain: r.Domain, excess: err}
	}
	encoded, err := compress(text)
	if err != nil {
		return nil, fmt.Errorf("compressing the record of the %s of %s: %w", r.Domain, r.Cluster, err)
	}
	if err := (limit{what: "compressed bytes", most: MaxEncoded}).check(len(encoded)); err != nil {
		return nil, &TooLongError{Domain: r.Domain, excess: err}
	}
	return encoded, nil
}

// text renders the record as JSON.
func (r Record) text() ([]byte, error) {
	r = r.clone()
	tidy(&r)
	if err := r.validate(); err != nil {
		return nil, err
	}
	return json.Marshal(stored{Format: format, Record: r})
}

func compress(text []byte) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	_, err := compressed.Write(text)
	err = errors.Join(err, compressed.Close())
	return out.Bytes(), err
}

// Parse reads a record as Encode wrote it. It rejects a record of another format, one that no operator writes, and one that would take
// much more memory than those that operators write.
func (w *Words) Parse(encoded []byte) (Record, error) {
	r, err := w.parse(encoded)
	if err != nil { // which may repeat what is in the record
		return Record{}, fmt.Errorf("parsing a record of trust: %s", excerpt.Of(err.Error(), excerpt.Foreign))
	}
	return r, nil
}

func (w *Words) parse(encoded []byte) (Record, error) {
	text, err := expand(encoded)
	if err != nil {
		return Record{}, err
	}
	var read stored
	if err := json.Unmarshal(text, &read); err != nil {
		return Record{}, err
	}
	if read.Format != format {
		return Record{}, fmt.Errorf("it has format %d and not %d: use the keyturn of the operator's version", read.Format, format)
	}
	r := read.Record
	r.Words = w
	r.completePlanes()
	if err := r.validate(); err != nil {
		return Record{}, err
	}
	tidy(&r)
	return r, nil
}

// completePlanes fills in what the planes are that roles name. An unknown one keeps its name alone.
func (r Record) completePlanes() {
	for i := range r.Snapshot.Members {
		roles := r.Snapshot.Members[i].Roles
		for j := range roles {
			if known, isKnown := r.Words.plane(roles[j].Plane.Name); isKnown {
				roles[j].Plane = known
			}
		}
	}
}

// expand decompresses a record. It stops at one that is larger than any that is written.
func expand(encoded []byte) ([]byte, error) {
	compressed, err := gzip.NewReader(bytes.NewReader(encoded))
	if err != nil {
		return nil, fmt.Errorf("decompressing it: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(compressed, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("decompressing it: %w", err)
	}
	if err := checkSize(text); err != nil {
		return nil, fmt.Errorf("it takes %w", err)
	}
	return text, nil
}

// Same reports whether both records say the same, whenever it was and however long
// it has been so. Then there is nothing to write.
func (r Record) Same(other Record) bool {
	r, other = r.timeless(), other.timeless()
	if reflect.DeepEqual(r, other) {
		return true
	}
	one, errOne := r.text()
	two, errTwo := other.text()
	return errOne == nil && errTwo == nil && bytes.Equal(one, two)
}

func (r Record) timeless() Record {
	r = r.clone()
	r.Snapshot.Now, r.StartedAt = time.Time{}, time.Time{}
	for i := range r.Snapshot.Members {
		for j := range r.Snapshot.Members[i].Roles {
			r.Snapshot.Members[i].Roles[j].Evidence.Since = time.Time{}
		}
	}
	return r
}
