package app

import (
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper caches the mapping of kinds to resources, which is constant for the kinds that controllers read. A cache of
// one namespace looks it up at each read, and the lookup costs several times as much as the read.
type mapper struct {
	meta.RESTMapper
	known sync.Map // of versionedKind to *meta.RESTMapping
}

type versionedKind struct {
	schema.GroupKind
	version string
}

func newMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, fmt.Errorf("discover the resources of the API server: %w", err)
	}
	return &mapper{RESTMapper: dynamic}, nil
}

// RESTMapping returns the mapping of a kind. Only an answer for one version is remembered; the preferred version may
// change.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return m.RESTMapper.RESTMapping(kind, versions...)
	}
	key := versionedKind{kind, versions[0]}
	if known, ok := m.known.Load(key); ok {
		return known.(*meta.RESTMapping), nil //nolint:forcetypeassert // stored below
	}
	found, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(key, found)
	}
	return found, err
}
