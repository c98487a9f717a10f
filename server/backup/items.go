package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/item"
)

// excludeLabel with the value "true" keeps an object, or all of a namespace, out of every backup.
const excludeLabel = "velero.io/exclude-from-backup"

// fatal is an error that ends the whole backup, in contrast to one of an object.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// scratch is a pool of buffers for objects that are put together.
type scratch struct{ pool sync.Pool }

func (s *scratch) get() *[]byte {
	if buf, ok := s.pool.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

func (s *scratch) put(buf *[]byte) {
	if cap(*buf) <= 1<<20 {
		s.pool.Put(buf)
	}
}

// object backs up one object and what its actions ask for. Its failure is recorded and does not end
// the backup; an error is one that does.
func (e *engine) object(ctx context.Context, o object) (bool, error) {
	meta, err := item.ParseMeta(o.raw)
	if err == nil && meta.Name == "" {
		err = errors.New("metadata.name is missing")
	}
	if err != nil {
		e.record.failed(o.resource.GroupResource(), meta.Namespace, meta.Name, "object cannot be read", err)
		e.log.Error("object cannot be read", "resource", o.resource.GroupResource(), "error", err)
		return false, nil
	}
	stored, err := e.store(ctx, o, meta)
	var end fatal
	switch {
	case errors.As(err, &end):
		return false, end
	case ctx.Err() != nil:
		return false, ctx.Err()
	}
	if err != nil {
		e.record.failed(o.resource.GroupResource(), meta.Namespace, meta.Name, "error backing up item", err)
		e.log.Error("error backing up item", "resource", o.resource.GroupResource(),
			"namespace", meta.Namespace, "name", meta.Name, "error", err)
	}
	return stored, nil
}

// store takes an object through its actions into the archive. It answers whether the object is in the
// backup, now or from before.
func (e *engine) store(ctx context.Context, o object, meta item.Meta) (bool, error) {
	if o.listed {
		e.record.collected(meta.Namespace)
	}
	if reason := e.leaveOut(o, meta); reason != "" {
		if o.listed {
			e.record.expect(-1)
		}
		e.log.Debug("object is left out", "resource", o.resource.GroupResource(),
			"namespace", meta.Namespace, "name", meta.Name, "reason", reason)
		return false, nil
	}
	key := e.seen.key(o.resource.GroupResource().Group, o.resource.Name, meta.Namespace, meta.Name)
	if !e.seen.add(key) {
		if o.listed {
			e.record.expect(-1)
		}
		return true, nil
	}
	if !o.listed {
		e.record.expect(1)
	}

	raw := o.raw
	if meta.Kind == "" && meta.APIVersion == "" {
		meta.APIVersion, meta.Kind = o.resource.GroupVersion.String(), o.resource.Kind
		buf := e.buffers.get()
		defer e.buffers.put(buf)
		*buf = item.WithType((*buf)[:0], o.raw, meta.APIVersion, meta.Kind)
		raw = *buf
	}
	e.warnOfPod(o, meta)
	raw, keep, err := e.act(ctx, o, meta, raw)
	if err != nil {
		e.record.expect(-1)
		return false, err
	}
	if !keep {
		e.seen.remove(key)
		e.record.expect(-1)
		return false, nil
	}
	// The resource is always read in its preferred version.
	err = e.archive.Item(o.resource.GroupResource(), o.resource.GroupVersion.Version, true, meta.Namespace, meta.Name, raw)
	if err != nil {
		return false, fatal{err}
	}
	e.record.stored(o.resource.GroupResource(), meta)
	e.log.Trace("backed up", "resource", o.resource.GroupResource(), "namespace", meta.Namespace, "name", meta.Name)
	return true, nil
}

// leaveOut says why an object does not belong to the backup, "" if it does.
func (e *engine) leaveOut(o object, meta item.Meta) string {
	if !o.must {
		switch {
		case meta.Labels[excludeLabel] == "true":
			return "it has the label " + excludeLabel + "=true"
		case o.resource.Namespaced && !e.sel.namespaces.Match(meta.Namespace):
			return "its namespace is not included"
		case !o.listed && !e.sel.resources.Allows(o.resource):
			return "its resource is not included"
		}
	}
	if meta.Deleting() {
		return "it is being deleted"
	}
	return ""
}

// seen remembers the objects that were taken up, as hashes of 128 bits.
type seen struct {
	once  sync.Once
	seeds [2]maphash.Seed
	mu    sync.Mutex
	keys  map[[2]uint64]struct{}
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

// add says whether the key is new.
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

// listFailed records that a list could not be read to its end.
func (e *engine) listFailed(l *list, err error) {
	gr := l.resource.GroupResource()
	if vanished(err) {
		e.record.warned(gr, l.namespace, "", "the resource is gone since the backup began, its objects are left out", nil)
		e.log.Warn("resource is gone since the backup began", "resource", gr)
		return
	}
	e.record.failed(gr, l.namespace, "", fmt.Sprintf("cannot %s, the objects that were not read are missing in the backup", l.describe()), err)
	e.log.Error("cannot "+l.describe(), "error", err)
}
