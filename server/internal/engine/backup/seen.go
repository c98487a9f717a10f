package backup

import (
	"hash/maphash"
	"sync"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// key identifies an object in one version, by a hash of 128 bits.
type key [2]uint64

// The states of an object.
const (
	taken    = 1 << iota // the backup has taken it
	assigned             // it is in a block
)

// seen holds the states of the objects of a run. It is safe for concurrent use.
type seen struct {
	once  sync.Once
	seeds [2]maphash.Seed
	mu    sync.Mutex
	keys  map[key]uint8
}

// keyOf returns the key of an object of a resource. Its other versions have keys of their own.
func (s *seen) keyOf(resource discovery.Resource, namespace, name string) key {
	plural := resource.Name
	if resource.NotPreferred {
		plural += "/" + resource.GroupVersion.Version
	}
	return s.key(resource.GroupVersion.Group, plural, namespace, name)
}

func (s *seen) key(group, resource, namespace, name string) (k key) {
	s.once.Do(func() {
		s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
		s.keys = map[key]uint8{}
	})
	id := framework.ResourceIdentifier{Group: group, Resource: resource, Namespace: namespace, Name: name}
	for i, seed := range s.seeds {
		k[i] = maphash.Comparable(seed, id)
	}
	return k
}

// add marks an object as taken and reports whether it was not taken before.
func (s *seen) add(k key) bool { return s.mark(k, taken) }

// assign assigns an object to a block and reports whether it was in none.
func (s *seen) assign(k key) bool { return s.mark(k, assigned) }

// isAssigned reports whether an object is assigned to a block.
func (s *seen) isAssigned(k key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[k]&assigned != 0
}

func (s *seen) mark(k key, what uint8) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.keys[k]
	s.keys[k] = before | what
	return before&what == 0
}

// has reports whether an object is taken.
func (s *seen) has(k key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[k]&taken != 0
}

// remove undoes add.
func (s *seen) remove(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[k] &^= taken
}
