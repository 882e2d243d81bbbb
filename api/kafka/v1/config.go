package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Config holds Kafka properties by name.
type Config map[string]ConfigValue

// UnmarshalJSON reads a JSON object of which each value may be of any type. The map and not only its values
// read themselves because the conversion from unstructured objects passes by values of the kind string.
func (c *Config) UnmarshalJSON(data []byte) error {
	var values map[string]ConfigValue
	if err := json.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("reading Kafka properties: %w", err)
	}
	*c = values
	return nil
}

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
