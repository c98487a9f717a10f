package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

var gvrNamespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// namespaceState is the state of one namespace. err and absent are valid once ready is closed.
type namespaceState struct {
	ready  chan struct{}
	err    error
	absent bool   // a dry run would create it
	found  []byte // its metadata, if it existed before the restore and is in the backup
}

// listNamespaces lists the names of all namespaces except terminating ones, which are checked when an object is
// restored into them.
func (e *engine) listNamespaces(ctx context.Context) error {
	e.namespaces.states, e.namespaces.checked = map[string]*namespaceState{}, map[string]bool{}
	e.namespaces.first = map[string]types.UID{}
	restored := map[string]bool{}
	for entry := range e.archive.Items(namespacesResource) {
		restored[e.selection.Target(entry.Name)] = true
	}
	return e.eachNamespace(ctx, func(found written, raw []byte) {
		if found.Metadata.DeletionTimestamp != "" {
			return
		}
		state := &namespaceState{ready: make(chan struct{})}
		close(state.ready)
		if restored[found.Metadata.Name] {
			state.found = slices.Clone(raw)
		}
		e.namespaces.states[found.Metadata.Name] = state
		e.namespaces.first[found.Metadata.Name] = found.Metadata.UID
	})
}

// eachNamespace calls do for the metadata of each namespace of the cluster.
func (e *engine) eachNamespace(ctx context.Context, do func(found written, raw []byte)) error {
	next := ""
	for {
		reply, err := e.api.Do(ctx, kubeapi.Request{
			Resource: gvrNamespaces, Query: url.Values{"limit": {"500"}, "continue": {next}}, Accept: kubeapi.MetadataList,
		})
		if err != nil {
			return fmt.Errorf("list the namespaces of the cluster: %w", err)
		}
		var list struct {
			Metadata metav1.ListMeta
			Items    []json.RawMessage
		}
		if err := json.Unmarshal(reply.Body, &list); err != nil {
			return fmt.Errorf("decode the list of namespaces: %w", err)
		}
		for _, raw := range list.Items {
			found, err := decodeWritten(raw)
			if err != nil {
				return fmt.Errorf("decode the list of namespaces: %w", err)
			}
			do(found, raw)
		}
		if next = list.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// firstSeen records the UID of a namespace, unless it had another one before.
func (e *engine) firstSeen(name string, uid types.UID) {
	e.namespaces.mu.Lock()
	defer e.namespaces.mu.Unlock()
	if e.namespaces.first[name] == "" {
		e.namespaces.first[name] = uid
	}
}

// ensureNamespace returns when the namespace called name exists, the target of the namespace source of the backup. It
// is created from the backup's Namespace object (labels, annotations, spec), or without content if the backup has
// none. One worker waits for the deletion of a terminating namespace, for all workers.
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
	defer waits.Begin(ctx, "namespace %s to exist", name).End()
	err := e.pool.park(ctx, func() error {
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
	if e.enclose != nil {
		return fmt.Errorf("namespace %s, which was made for the restore, does not exist any more", name)
	}
	o := e.namespaceObject(source, name)
	own := object.PlanOwnership(o.Metadata.Get("managedFields"), e.options.FieldManager)
	own.Apply = false // its conflict does not distinguish a terminating namespace from other causes
	to := target{gvr: gvrNamespaces}
	var until time.Time // zero before the first pause
	waiting := false
	for {
		made, err := e.create(ctx, to, o, own)
		if err == nil {
			e.log.Info("created the namespace", "namespace", name)
			e.firstSeen(name, made.Metadata.UID)
			e.tracker.add(itemKey{listKey: "v1/Namespace", name: name}, actionCreated)
			e.reportNamespace(source, name, outcome.Created, "")
			if e.dry != nil {
				state.absent = true
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
		pause := firstPause // it was deleted in the meantime
		if err == nil {
			var live metav1.PartialObjectMetadata
			if err := json.Unmarshal(reply.Body, &live); err != nil {
				return fmt.Errorf("decode namespace %s: %w", name, err)
			}
			if live.DeletionTimestamp == nil {
				state.found = reply.Body
				e.firstSeen(name, live.UID)
				return nil
			}
			if e.dry != nil {
				state.absent = true
				e.tracker.add(itemKey{listKey: "v1/Namespace", name: name}, actionCreated)
				e.reportNamespace(source, name, outcome.Created, "it is being deleted, which the restore waits for")
				return nil
			}
			pause = e.options.PollInterval
			if !waiting {
				waiting = true
				defer waits.Begin(ctx, "the end of namespace %s, which is being deleted, so that it can be created", name).End()
			}
		}
		if until.IsZero() {
			until = e.terminating.begin()
			defer e.terminating.end()
		}
		if time.Now().After(until) {
			return fmt.Errorf("namespace %s is being deleted and still existed after %s, in which the restore has waited for "+
				"what is being deleted; complete its deletion and restore again", name, e.options.TerminatingTimeout)
		}
		if err := e.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// settleNamespace handles a namespace that existed before the restore, like other existing objects; see
// handleExisting. Other clients may have added labels and annotations, and these remain.
func (r *itemRun) settleNamespace(ctx context.Context, state *namespaceState) (err error) {
	if state.found == nil || !r.engine.firstReport("existing namespace "+r.namespace) {
		return nil
	}
	r.id = "namespaces/" + r.namespace
	r.obj = r.engine.namespaceObject(r.entry.Name, r.namespace)
	own := object.PlanOwnership(r.obj.Metadata.Get("managedFields"), r.engine.options.FieldManager)
	r.obj.Top.Remove("spec")
	r.reset = r.obj
	r.claim = &claim{}
	if err := r.handleExisting(ctx, target{gvr: gvrNamespaces}, state.found, own); err != nil {
		return err
	}
	if r.warned && r.claim.action == actionNone {
		r.claim.action = actionFailed
	}
	if r.claim.action == actionNone {
		if r.engine.dry == nil { // Velero's list does not have it, and a dry run shows what that list will have
			r.report(actionSkipped)
		}
		return nil
	}
	r.engine.tracker.add(itemKey{listKey: "v1/Namespace", name: r.namespace}, r.claim.action)
	r.report(r.claim.action)
	return nil
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
			err = e.check(entry, archived)
		}
		if err == nil {
			for _, key := range []string{"labels", "annotations", "managedFields"} {
				if value := archived.Metadata.Get(key); value != nil {
					bare.Metadata.Set(key, value)
				}
			}
			bare.Labels, bare.Annotations = archived.Labels, archived.Annotations
			bare.RemoveOrders(string(e.restore.UID))
			if spec := archived.Top.Get("spec"); spec != nil {
				bare.Top.Set("spec", spec)
			}
			return bare
		}
	}
	e.results.Warning(name, fmt.Sprintf("namespace %s is created without labels and annotations: decode %s: %v", name,
		entry.Path(), err))
	return bare
}
