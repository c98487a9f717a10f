package backup

import (
	"hash/maphash"
	"sync"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/discovery"
)

// seen holds the objects that the backup has taken up, as hashes of 128 bits.
type seen struct {
	once  sync.Once
	seeds [2]maphash.Seed
	mu    sync.Mutex
	keys  map[[2]uint64]struct{}
}

// keyOf returns the key of an object of a resource. Its other versions have keys of their own.
func (s *seen) keyOf(resource discovery.Resource, namespace, name string) (k [2]uint64) {
	plural := resource.Name
	if resource.NotPreferred {
		plural += "/" + resource.GroupVersion.Version
	}
	return s.key(resource.GroupVersion.Group, plural, namespace, name)
}

func (s *seen) key(group, resource, namespace, name string) (k [2]uint64) {
	s.once.Do(func() {
		s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
		s.keys = map[[2]uint64]struct{}{}
	})
	id := framework.ResourceIdentifier{Group: group, Resource: resource, Namespace: namespace, Name: name}
	for i, seed := range s.seeds {
		k[i] = maphash.Comparable(seed, id)
	}
	return k
}

// add adds a key and reports whether it is new.
func (s *seen) add(k [2]uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.keys[k]; ok {
		return false
	}
	s.keys[k] = struct{}{}
	return true
}

func (s *seen) has(k [2]uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.keys[k]
	return ok
}

func (s *seen) remove(k [2]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, k)
}
