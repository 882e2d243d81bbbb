package watches

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	list  = "list"
	watch = "watch"
)

// scope is what one cache lists and watches.
type scope struct {
	resource  schema.GroupResource
	namespace string
	// selectors tell a watch of single objects from that of all.
	selectors string
}

// scopeOf returns what a request of a cache lists or watches, and by which verb; the verb is empty for every other
// request. A cache says from which version on it lists, and a reader of the moment does not.
func scopeOf(request *http.Request) (scope, string) {
	resource, namespace, isCollection := collectionOf(request.URL.Path)
	if !isCollection || request.Method != http.MethodGet {
		return scope{}, ""
	}
	query := request.URL.Query()
	of := scope{resource: resource, namespace: namespace, selectors: query.Get("labelSelector") + ";" + query.Get("fieldSelector")}
	switch {
	case query.Get("watch") == "true", query.Get("watch") == "1":
		return of, watch
	case query.Has("resourceVersion"):
		return of, list
	default:
		return scope{}, ""
	}
}

// collectionOf reads a path that ends in a resource, behind whatever a proxy puts in front of it.
func collectionOf(path string) (resource schema.GroupResource, namespace string, is bool) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	var rest []string
	if at := slices.Index(segments, "apis"); at >= 0 && len(segments) > at+3 {
		resource.Group, rest = segments[at+1], segments[at+3:]
	} else if at := slices.Index(segments, "api"); at >= 0 && len(segments) > at+2 {
		rest = segments[at+2:]
	}
	if len(rest) == 3 && rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	if len(rest) != 1 {
		return resource, "", false
	}
	resource.Resource = rest[0]
	return resource, namespace, true
}
