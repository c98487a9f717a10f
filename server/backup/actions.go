package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/filter"
	"github.com/cleat-dev/cleat/server/item"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// The annotations by which an action talks to the engine (Velero's protocol).
const (
	mustIncludeAnnotation = "backup.velero.io/must-include-additional-items"
	skipAnnotation        = "velero.io/skip-from-backup"
)

// csiPrefix is part of the names of actions that need the feature EnableCSI.
const csiPrefix = "velero.io/csi-"

// action is an action and what it applies to.
type action struct {
	backupitemaction.Action
	applies filter.Action
}

// resolveActions asks each action once what it applies to.
func (e *engine) resolveActions(ctx context.Context) ([]action, error) {
	var resolved []action
	for _, a := range e.req.Actions {
		if !e.deps.CSI && strings.Contains(a.Name(), csiPrefix) {
			e.log.Debug("action is not called, because the feature EnableCSI is off", "action", a.Name())
			continue
		}
		selector, err := a.AppliesTo(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask what the action applies to: %w", err)
		}
		applies, err := filter.Resolve(selector, e.sel.snapshot)
		if err != nil {
			return nil, fmt.Errorf("action %s: %w", a.Name(), err)
		}
		resolved = append(resolved, action{Action: a, applies: applies})
	}
	return resolved, nil
}

// act lets the actions that apply to an object work on it, one after the other, and backs up what they
// ask for besides. It answers the object as they leave it, and false if one wants it left out.
func (e *engine) act(ctx context.Context, o object, meta item.Meta, raw []byte) ([]byte, bool, error) {
	for _, a := range e.actions {
		if !a.applies.Matches(o.resource.GroupResource(), meta.Namespace, meta.Labels) {
			continue
		}
		e.log.Debug("executing action", "action", a.Name(), "resource", o.resource.GroupResource(),
			"namespace", meta.Namespace, "name", meta.Name)
		reply, err := a.Execute(ctx, raw, e.backupJSON)
		if err != nil {
			return nil, false, err
		}
		answer, err := e.checkReply(a, meta, reply)
		if err != nil {
			return nil, false, err
		}
		if _, skip := answer.Annotations[skipAnnotation]; skip {
			e.log.Info("object is left out by an action", "action", a.Name(), "resource", o.resource.GroupResource(),
				"namespace", meta.Namespace, "name", meta.Name)
			return nil, false, nil
		}
		raw = reply.Item
		value, asked := answer.Annotations[mustIncludeAnnotation]
		if asked {
			if raw, err = withoutAnnotation(raw, mustIncludeAnnotation); err != nil {
				return nil, false, fmt.Errorf("item answered by %s: %w", a.Name(), err)
			}
		}
		if reply.OperationID != "" {
			e.record.operation(Operation{
				Action: a.Name(), ID: reply.OperationID, Item: identify(o.resource, meta),
				PostOperationItems: reply.PostOperationItems, Created: e.now(),
			})
		}
		for _, id := range reply.AdditionalItems {
			if err := e.additional(ctx, id, value == "true"); err != nil {
				return nil, false, fmt.Errorf("additional item %s asked for by %s: %w", id, a.Name(), err)
			}
		}
		meta.Labels = answer.Labels
	}
	return raw, true, nil
}

// checkReply refuses an answer that is not the object that was asked about.
func (e *engine) checkReply(a action, asked item.Meta, reply *backupitemaction.Result) (item.Meta, error) {
	if reply == nil || len(reply.Item) == 0 {
		return item.Meta{}, fmt.Errorf("%s answered no item", a.Name())
	}
	answer, err := item.ParseMeta(reply.Item)
	switch {
	case err != nil:
		return item.Meta{}, fmt.Errorf("item answered by %s: %w", a.Name(), err)
	case answer.Name != asked.Name || answer.Namespace != asked.Namespace:
		return item.Meta{}, fmt.Errorf("%s answered object %q of namespace %q, want the one it was asked about", a.Name(), answer.Name, answer.Namespace)
	case answer.Kind == "" || answer.APIVersion == "":
		return item.Meta{}, fmt.Errorf("%s answered an item without apiVersion or kind", a.Name())
	}
	return answer, nil
}

// additional backs up an object that an action asked for, unless it is in the backup already.
func (e *engine) additional(ctx context.Context, id framework.ResourceIdentifier, must bool) error {
	resource, err := e.resourceOf(id)
	if err != nil {
		return err
	}
	switch {
	case id.Name == "":
		return errors.New("its name is missing")
	case resource.Namespaced && id.Namespace == "":
		return errors.New("its namespace is missing")
	case !resource.Namespaced:
		id.Namespace = ""
	}
	if e.seen.has(e.seen.key(resource.GroupVersion.Group, resource.Name, id.Namespace, id.Name)) {
		return nil
	}
	o := object{resource: resource, must: must}
	if reason := e.leaveOut(o, item.Meta{Name: id.Name, Namespace: id.Namespace}); reason != "" {
		e.log.Debug("additional item is left out", "item", id, "reason", reason)
		return nil
	}
	o.raw, err = e.client.get(ctx, resource, id.Namespace, id.Name)
	if apierrors.IsNotFound(err) {
		e.record.warned(resource.GroupResource(), id.Namespace, id.Name, "additional item does not exist, it is left out", nil)
		e.log.Warn("additional item does not exist, it is left out", "item", id)
		return nil
	}
	if err != nil {
		return err
	}
	meta, err := item.ParseMeta(o.raw)
	if err != nil {
		return err
	}
	_, err = e.store(ctx, o, meta)
	return err
}

func (e *engine) resourceOf(id framework.ResourceIdentifier) (discovery.Resource, error) {
	gr := schema.GroupResource{Group: id.Group, Resource: id.Resource}
	if resource, ok := e.sel.snapshot.ByGroupResource(gr); ok {
		return resource, nil
	}
	if known, ok := e.sel.snapshot.Resolve(gr.String()); ok {
		resource, _ := e.sel.snapshot.ByGroupResource(known)
		return resource, nil
	}
	return discovery.Resource{}, fmt.Errorf("%s is not a resource of this cluster", gr)
}

func identify(resource discovery.Resource, meta item.Meta) framework.ResourceIdentifier {
	return framework.ResourceIdentifier{
		Group: resource.GroupVersion.Group, Resource: resource.Name, Namespace: meta.Namespace, Name: meta.Name,
	}
}

// withoutAnnotation removes an annotation from an object. It is the one place that decodes an object.
func withoutAnnotation(raw []byte, annotation string) ([]byte, error) {
	var object, metadata, annotations map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if err := json.Unmarshal(metadata["annotations"], &annotations); err != nil {
		return nil, fmt.Errorf("metadata.annotations: %w", err)
	}
	delete(annotations, annotation)
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	} else if err := set(metadata, "annotations", annotations); err != nil {
		return nil, err
	}
	if err := set(object, "metadata", metadata); err != nil {
		return nil, err
	}
	return encode(object)
}

func set(in map[string]json.RawMessage, key string, value map[string]json.RawMessage) (err error) {
	in[key], err = encode(value)
	return err
}

func encode(value map[string]json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
