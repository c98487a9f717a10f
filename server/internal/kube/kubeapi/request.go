package kubeapi

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Media types for Request.Accept and Request.ContentType. A server that cannot reduce an object to its
// metadata sends the whole object.
const (
	JSON         = "application/json"
	Metadata     = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
	MetadataList = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
	// CompactMetadataList is MetadataList as protobuf, from servers that have it.
	CompactMetadataList = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io," +
		MetadataList
	MergePatch = "application/merge-patch+json"
	Apply      = "application/apply-patch+yaml"
)

// maxReply is the limit of a reply in bytes where the request names none.
const maxReply = 256 << 20

// Request describes one request.
type Request struct {
	Method      string // empty for GET
	Resource    schema.GroupVersionResource
	Namespace   string // empty for cluster-scoped objects and for all namespaces
	Name        string // empty for the collection
	Subresource string
	Query       url.Values
	Accept      string // empty for JSON
	ContentType string // media type of Body
	Body        []byte

	// MaxReply is the largest reply in bytes that is accepted; 0 means 256 MiB. ErrTooLarge is returned
	// for larger ones.
	MaxReply int
	// Buffer is overwritten with the reply if it is large enough.
	Buffer []byte

	// Once forbids another attempt after one that may have taken effect. It is for creations without a
	// name, which would create a second object.
	Once bool
	// Conditional makes a conflict final: the request names the version that it changes.
	Conditional bool
	// New, unless nil, is asked when the server does not serve the resource: it reports whether the server may do so in a
	// moment, because the resource has just been defined. Then the request is repeated.
	New func() bool
}

// Reply is the reply to a request.
type Reply struct {
	Body []byte
	// Uncertain means that an attempt failed before the last one which may have taken effect. An object
	// that exists already may then be the one that the request created.
	Uncertain bool
}

func (r *Request) method() string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

// reads reports whether the request changes nothing.
func (r *Request) reads() bool { return r.method() == http.MethodGet }

// String names the request in logs, as in "GET deployments.apps shop/web".
func (r *Request) String() string {
	words := []string{r.method(), r.Resource.GroupResource().String()}
	if object := path.Join(r.Namespace, r.Name); object != "" {
		words = append(words, object)
	}
	if r.Subresource != "" {
		words = append(words, r.Subresource)
	}
	return strings.Join(words, " ")
}

// build returns the request for client-go, which validates namespace, resource and name as parts of a
// path.
func (r *Request) build(client rest.Interface) (*rest.Request, error) {
	root := []string{"/apis", r.Resource.Group, r.Resource.Version}
	if r.Resource.Group == "" {
		root = []string{"/api", r.Resource.Version}
	}
	for _, segment := range root[1:] {
		if problems := rest.IsValidPathSegmentName(segment); segment == "" || len(problems) > 0 {
			return nil, fmt.Errorf("invalid API version %q", r.Resource.GroupVersion().String())
		}
	}
	request := client.Verb(r.method()).MaxRetries(0).AbsPath(root...).
		NamespaceIfScoped(r.Namespace, r.Namespace != "").Resource(r.Resource.Resource)
	if r.Name != "" {
		request.Name(r.Name)
	}
	if r.Subresource != "" {
		request.SubResource(r.Subresource)
	}
	for key, values := range r.Query {
		for _, value := range values {
			request.Param(key, value)
		}
	}
	if r.Accept != "" {
		request.SetHeader("Accept", r.Accept)
	}
	if r.Body != nil {
		request.SetHeader("Content-Type", r.ContentType).Body(r.Body)
	}
	return request, request.Error()
}
