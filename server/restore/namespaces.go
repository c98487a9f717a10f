package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/dryrun"
	"github.com/cleat-dev/cleat/server/kubeapi"
	"github.com/cleat-dev/cleat/server/restore/object"
	"github.com/cleat-dev/cleat/server/waits"
)

var gvrNamespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// namespaceState is the state of one namespace. err and absent are valid once ready is closed.
type namespaceState struct {
	ready  chan struct{}
	err    error
	absent bool // a dry run would create it
}

// listNamespaces lists the names of all namespaces, except those that are being deleted: these are checked when an
// object is restored into them.
func (e *engine) listNamespaces(ctx context.Context) error {
	e.namespaces.states, e.namespaces.checked = map[string]*namespaceState{}, map[string]bool{}
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

// ensureNamespace returns when the namespace name exists, into which objects of the namespace source of the backup
// are restored. It is created from the backup's Namespace object (labels, annotations, spec), or without content if
// the backup has none. The deletion of a terminating namespace is awaited by one worker for all.
func (e *engine) ensureNamespace(ctx context.Context, source, name string) (*namespaceState, error) {
	e.namespaces.mu.Lock()
	state, known := e.namespaces.states[name]
	if !known {
		state = &namespaceState{ready: make(chan struct{})}
		e.namespaces.states[name] = state
	}
	e.namespaces.mu.Unlock()
	if !known {
		state.err = e.createNamespace(ctx, source, name, state)
		close(state.ready)
	}
	select {
	case <-state.ready:
		return state, state.err
	default:
	}
	err := e.pool.park(func() error {
		select {
		case <-state.ready:
			return state.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return state, err
}

// forgetNamespace makes the next ensureNamespace check the namespace again, once per restore.
func (e *engine) forgetNamespace(name string, state *namespaceState) (forgotten bool) {
	e.namespaces.mu.Lock()
	defer e.namespaces.mu.Unlock()
	if e.namespaces.states[name] != state {
		return true // by another worker
	}
	if e.namespaces.checked[name] {
		return false
	}
	e.namespaces.checked[name] = true
	delete(e.namespaces.states, name)
	return true
}

// isNamespaceMissing reports whether a creation failed because its namespace does not exist or is terminating.
func isNamespaceMissing(err error, name string) bool {
	if apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return true
	}
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return status.Status().Details.Kind == "namespaces" && status.Status().Details.Name == name
}

func (e *engine) createNamespace(ctx context.Context, source, name string, state *namespaceState) error {
	o := e.namespaceObject(source, name)
	own := object.PlanOwnership(o.Metadata.Get("managedFields"), e.options.FieldManager)
	own.Apply = false // which does not distinguish a terminating namespace from another conflict
	to := target{gvr: gvrNamespaces}
	deadline, waiting := time.Now().Add(e.options.TerminatingTimeout), false
	for {
		made, err := e.create(ctx, to, o, own)
		if err == nil {
			e.log.Info("created the namespace", "namespace", name)
			e.tracker.add(itemKey{listKey: "v1/Namespace", name: name}, actionCreated)
			if e.dry != nil {
				state.absent = true
				e.dry.namespace(name, dryrun.Created, "")
				return nil
			}
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
			return fmt.Errorf("get namespace %s: %w", name, err)
		}
		pause := firstPause // it has been deleted in the meantime
		if err == nil {
			var live metav1.PartialObjectMetadata
			if err := json.Unmarshal(reply.Body, &live); err != nil {
				return fmt.Errorf("decode namespace %s: %w", name, err)
			}
			if live.DeletionTimestamp == nil {
				return nil
			}
			if e.dry != nil {
				state.absent = true
				e.tracker.add(itemKey{listKey: "v1/Namespace", name: name}, actionCreated)
				e.dry.namespace(name, dryrun.Created, "it is being deleted, which the restore waits for")
				return nil
			}
			pause = e.options.PollInterval
			if !waiting {
				waiting = true
				defer waits.Begin(ctx, "the end of namespace %s, which is being deleted, so that it can be created", name).End()
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("namespace %s is being deleted and still existed after %s; complete its deletion and restore again",
				name, e.options.TerminatingTimeout)
		}
		if err := e.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// namespaceObject returns the object from which a namespace is created.
func (e *engine) namespaceObject(source, name string) *object.Object {
	bare := object.New("v1", "Namespace", name)
	entry, ok := e.archive.Find(namespacesResource, "", source)
	if !ok {
		return bare
	}
	raw, err := e.archive.Read(entry)
	if err == nil {
		var archived *object.Object
		if archived, err = object.Decode(raw); err == nil {
			for _, key := range []string{"labels", "annotations", "managedFields"} {
				if value := archived.Metadata.Get(key); value != nil {
					bare.Metadata.Set(key, value)
				}
			}
			if spec := archived.Top.Get("spec"); spec != nil {
				bare.Top.Set("spec", spec)
			}
			return bare
		}
	}
	e.results.Warning(name, fmt.Sprintf("namespace %s is created without labels and annotations: decode %s: %v", name, entry.Path(), err))
	return bare
}
