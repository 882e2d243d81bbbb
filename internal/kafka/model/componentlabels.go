package model

import "maps"

// Component is what an object of the cluster belongs to when it does not belong
// to the Kafka nodes.
type Component struct {
	// Name is the value of the label strimzi.io/name.
	Name string
	// Type is the value of strimzi.io/component-type.
	Type string
}

// AuthorityComponent owns the Secrets of the two authorities.
func AuthorityComponent() Component {
	return Component{Name: "strimzi", Type: "certificate-authority"}
}

// OperatorComponent owns the operator's own identity and its records.
func OperatorComponent() Component {
	return Component{Name: "strimzi", Type: "strimzi"}
}

// ComponentLabels are on the objects of a component.
func (c Cluster) ComponentLabels(component Component) map[string]string {
	labels := c.commonLabels()
	maps.Copy(labels, map[string]string{
		"app.kubernetes.io/name": component.Type,
		NameLabel:                component.Name,
		ComponentTypeLabel:       component.Type,
	})
	return labels
}

// NodeSecretLabels are on the Secrets of the Kafka nodes.
func (c Cluster) NodeSecretLabels() map[string]string { return c.commonLabels() }
