package watches

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DeniedError is a watch that the API server denies.
type DeniedError struct {
	Resource schema.GroupResource
	// Namespace is empty where all namespaces are watched.
	Namespace string
	// Verb is list or watch.
	Verb string
	// Code is 401, 403 or 404.
	Code int
	// Since is when the API server denied it for the first time.
	Since time.Time
}

// Covers reports whether changes of the objects of a resource in a namespace are not noticed for it.
func (d *DeniedError) Covers(resource schema.GroupResource, namespace string) bool {
	return d.Resource == resource && (d.Namespace == "" || d.Namespace == namespace)
}

// Reason is that of a condition: Forbidden, Unauthorized or NotFound.
func (d *DeniedError) Reason() string { return strings.ReplaceAll(http.StatusText(d.Code), " ", "") }

// Error says what is denied, and what to do.
func (d *DeniedError) Error() string {
	const operator = "this operator"
	remedy := d.Remedy(operator)
	return fmt.Sprintf("the API server %s since %s: %s", d.Answer(operator), d.Since.UTC().Format(time.RFC3339), strings.ToLower(remedy[:1])+remedy[1:])
}

// Report is what a condition says: what is denied, what follows from that, and what to do.
func (d *DeniedError) Report(operator, consequence string) string {
	return fmt.Sprintf("The API server %s. %s %s.", d.Answer(operator), consequence, d.Remedy(operator))
}

// Answer says what the API server does not let an operator do.
func (d *DeniedError) Answer(operator string) string {
	answer := fmt.Sprintf("%d %s", d.Code, http.StatusText(d.Code))
	switch d.Code {
	case http.StatusUnauthorized:
		return fmt.Sprintf("has not accepted the credentials of %s to %s %s (%s)", operator, d.Verb, d.what(), answer)
	case http.StatusNotFound:
		return fmt.Sprintf("has had no resource %s for %s to %s (%s)", d.Resource, operator, d.Verb, answer)
	default:
		return fmt.Sprintf("has not allowed %s to %s %s (%s)", operator, d.Verb, d.what(), answer)
	}
}

// Remedy says what to do about it.
func (d *DeniedError) Remedy(operator string) string {
	switch d.Code {
	case http.StatusUnauthorized:
		return "Check the ServiceAccount of " + operator + " and its token"
	case http.StatusNotFound:
		return fmt.Sprintf("Install the CustomResourceDefinition %s of the chart", d.Resource)
	default:
		return fmt.Sprintf("Grant its ServiceAccount the verbs list and watch on %s, as the chart's Role or ClusterRole of %s does", d.what(), operator)
	}
}

func (d *DeniedError) what() string {
	if d.Namespace == "" {
		return fmt.Sprintf("%s in all namespaces", d.Resource)
	}
	return fmt.Sprintf("%s in namespace %s", d.Resource, d.Namespace)
}
