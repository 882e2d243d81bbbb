package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// withoutEffect is what kubectl explain says of a field that is known and not acted on. What is below it has no text:
// kubectl apply keeps the whole definition in an annotation, which has at most 256 KiB.
const withoutEffect = "No effect in Keyturn, nor has what is below it."

// typeObject is the type of objects, in schemas and in the list.
const typeObject = "object"

// readList reads the list of fields that may be written below spec, by kind. Its head says in which form.
func readList(file string) (map[string]any, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the list of fields: %w", err)
	}
	var kinds map[string]any
	if err := yaml.UnmarshalStrict(data, &kinds); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	return kinds, nil
}

// complete adds to the schema of an object, which holds what is acted on, the listed fields that it does not
// have. What both have must be of the same form. path is for errors.
func complete(schema *apiextensionsv1.JSONSchemaProps, listed map[string]any, path string) error {
	for _, written := range slices.Sorted(maps.Keys(listed)) {
		name := strings.TrimRight(written, "[]{}")
		property, acted := schema.Properties[name]
		if acted && isUnspecified(&property) {
			specified := listedSchema(written, listed[written])
			specified.Description = property.Description
			schema.Properties[name] = specified
			continue
		}
		if acted {
			if err := completeProperty(&property, written, listed[written], path+"."+name); err != nil {
				return err
			}
			schema.Properties[name] = property
			continue
		}
		added := listedSchema(written, listed[written])
		added.Description = withoutEffect
		schema.Properties[name] = added
	}
	return nil
}

// isUnspecified reports whether the Go type of a field says nothing of its form: it is a type of Kubernetes, and the list says
// which of its fields may be written.
func isUnspecified(property *apiextensionsv1.JSONSchemaProps) bool {
	return property.Type == "" && !property.XIntOrString && property.XPreserveUnknownFields != nil
}

func completeProperty(property *apiextensionsv1.JSONSchemaProps, written string, listed any, path string) error {
	inner := property
	want := listedSchema(written, listed)
	switch {
	case want.Type != property.Type || want.XIntOrString != property.XIntOrString:
		return fmt.Errorf("%s is listed as %q and acted on as %q", path, want.Type, property.Type)
	case property.Items != nil:
		inner = property.Items.Schema
	case property.AdditionalProperties != nil:
		inner = property.AdditionalProperties.Schema
	}
	object, isObject := listed.(map[string]any)
	if !isObject || len(inner.Properties) == 0 {
		return nil
	}
	return complete(inner, object, path)
}

// listedSchema is the schema of a field as it is listed, under the name that says whether it holds a list or a map.
func listedSchema(written string, listed any) apiextensionsv1.JSONSchemaProps {
	schema := listedType(listed)
	switch {
	case strings.HasSuffix(written, "[]"):
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &schema}}
	case strings.HasSuffix(written, "{}"):
		return apiextensionsv1.JSONSchemaProps{Type: typeObject, AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &schema}}
	default:
		return schema
	}
}

func listedType(listed any) apiextensionsv1.JSONSchemaProps {
	object, isObject := listed.(map[string]any)
	switch {
	case listed == typeObject:
		return apiextensionsv1.JSONSchemaProps{Type: typeObject, XPreserveUnknownFields: new(true)}
	case listed == "int-or-string":
		return apiextensionsv1.JSONSchemaProps{XIntOrString: true}
	case !isObject:
		return apiextensionsv1.JSONSchemaProps{Type: fmt.Sprint(listed)}
	}
	schema := apiextensionsv1.JSONSchemaProps{Type: typeObject, Properties: make(map[string]apiextensionsv1.JSONSchemaProps, len(object))}
	for written, inner := range object {
		schema.Properties[strings.TrimRight(written, "[]{}")] = listedSchema(written, inner)
	}
	return schema
}
