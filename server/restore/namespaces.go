package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/item"
	"github.com/cleat-dev/cleat/server/kubeapi"
)

var gvrNamespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// namespaces knows which namespaces of the cluster can be written into. It lists them once and then
// knows what it made itself, so that no item costs a request for its namespace.
type namespaces struct {
	mu      sync.Mutex
	states  map[string]*namespaceState
	revived map[string]bool // looked at again, after the server said that it is gone or going
}

// namespaceState is one namespace. err is valid once ready is closed.
type namespaceState struct {
	ready chan struct{}
	err   error
}

// listNamespaces reads the names of all namespaces. Those that are being deleted are left out: they are
// looked at when something is to be restored into them.
func (e *engine) listNamespaces(ctx context.Context) error {
	e.namespaces.states, e.namespaces.revived = map[string]*namespaceState{}, map[string]bool{}
	next := ""
	for {
		reply, err := e.api.Do(ctx, kubeapi.Request{
			Resource: gvrNamespaces, Query: url.Values{"limit": {"500"}, "continue": {next}}, Accept: kubeapi.MetadataList,
		})
		if err != nil {
			return fmt.Errorf("list the namespaces of the cluster: %w", err)
		}
		var list metav1.PartialObjectMetadataList
		if err := json.Unmarshal(reply.Body, &list); err != nil {
			return fmt.Errorf("decode the list of namespaces: %w", err)
		}
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				state := &namespaceState{ready: make(chan struct{})}
				close(state.ready)
				e.namespaces.states[list.Items[i].Name] = state
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// ensureNamespace returns when the namespace that objects of source are restored into is there. It is made
// from the backup's Namespace object (labels, annotations, spec), or bare if the backup has none. One
// that is being deleted is waited for, by one worker for all.
func (e *engine) ensureNamespace(ctx context.Context, source, name string) (*namespaceState, error) {
	e.namespaces.mu.Lock()
	state, known := e.namespaces.states[name]
	if !known {
		state = &namespaceState{ready: make(chan struct{})}
		e.namespaces.states[name] = state
	}
	e.namespaces.mu.Unlock()
	if !known {
		state.err = e.makeNamespace(ctx, source, name)
		close(state.ready)
	}
	select {
	case <-state.ready:
		return state, state.err
	case <-ctx.Done():
		return state, context.Cause(ctx)
	}
}

// forgetNamespace makes the next ensureNamespace look again, once in a restore.
func (e *engine) forgetNamespace(name string, state *namespaceState) (forgotten bool) {
	e.namespaces.mu.Lock()
	defer e.namespaces.mu.Unlock()
	if e.namespaces.states[name] != state {
		return true // another worker did
	}
	if e.namespaces.revived[name] {
		return false
	}
	e.namespaces.revived[name] = true
	delete(e.namespaces.states, name)
	return true
}

// namespaceGone says whether a creation failed because its namespace is not there or about to go.
func namespaceGone(err error, name string) bool {
	if apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return true
	}
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return status.Status().Details.Kind == "namespaces" && status.Status().Details.Name == name
}

func (e *engine) makeNamespace(ctx context.Context, source, name string) error {
	o := e.namespaceObject(source, name)
	own := planOwnership(o.meta.get("managedFields"), e.options.FieldManager)
	own.apply = false // a namespace that is being deleted must not be taken for one that is there
	to := target{gvr: gvrNamespaces}
	deadline := time.Now().Add(e.options.TerminatingTimeout)
	for {
		made, err := e.create(ctx, to, o, own)
		if err == nil {
			e.log.Info("created the namespace", "namespace", name)
			e.tracker.add(itemKey{listKey: "v1/Namespace", name: name}, actionCreated)
			if err := e.own(ctx, to, made, own); err != nil {
				if fatal(ctx, err) {
					return err
				}
				e.results.Warning(name, fmt.Sprintf("namespace %s: %v", name, err))
			}
			return nil
		}
		if !errors.Is(err, errExists) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
		reply, err := e.api.Do(ctx, to.read(name, kubeapi.Metadata))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("look at namespace %s: %w", name, err)
		}
		pause := firstPause // gone by now
		if err == nil {
			var live metav1.PartialObjectMetadata
			if err := json.Unmarshal(reply.Body, &live); err != nil {
				return fmt.Errorf("decode namespace %s: %w", name, err)
			}
			if live.DeletionTimestamp == nil {
				return nil
			}
			pause = e.options.PollInterval
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("namespace %s is being deleted and was still there after %s; finish its deletion and restore again",
				name, e.options.TerminatingTimeout)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// namespaceObject is what a namespace is made from.
func (e *engine) namespaceObject(source, name string) *object {
	bare := &object{
		Meta: item.Meta{APIVersion: "v1", Kind: "Namespace", Name: name},
		top:  fields{{"apiVersion", []byte(`"v1"`)}, {"kind", []byte(`"Namespace"`)}},
		meta: fields{{"name", quoteJSON(name)}},
	}
	entry, ok := e.archive.Find(grNamespaces, "", source)
	if !ok {
		return bare
	}
	raw, err := e.archive.Read(entry)
	if err == nil {
		var archived *object
		if archived, err = decodeObject(raw); err == nil {
			for _, key := range []string{"labels", "annotations", "managedFields"} {
				if value := archived.meta.get(key); value != nil {
					bare.meta.set(key, value)
				}
			}
			if spec := archived.top.get("spec"); spec != nil {
				bare.top.set("spec", spec)
			}
			return bare
		}
	}
	e.results.Warning(name, fmt.Sprintf("namespace %s is made without labels and annotations: decode %s: %v", name, entry.Path(), err))
	return bare
}
