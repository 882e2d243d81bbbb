package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ConfigValue is the value of a Kafka property in the text that goes into the properties file. In JSON it
// may be a string, a number or a boolean, as in Strimzi's manifests, where 3 and "3" mean the same; numbers
// keep the digits they were written with. It is always written as a string.
//
// Null becomes the empty text. A list or an object, which the schema refuses, becomes its JSON text: one
// odd object must not keep the operator from decoding all the others.
//
// +kubebuilder:validation:Schemaless
// +kubebuilder:pruning:PreserveUnknownFields
type ConfigValue string

// UnmarshalJSON reads any JSON value as described at the type. The error is about malformed JSON only.
func (v *ConfigValue) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case bytes.Equal(data, []byte("null")):
		*v = ""
	case len(data) > 0 && data[0] == '"':
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("reading a Kafka property: %w", err)
		}
		*v = ConfigValue(text)
	default:
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			return fmt.Errorf("reading a Kafka property: %w", err)
		}
		*v = ConfigValue(compact.String())
	}
	return nil
}
