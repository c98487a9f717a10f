package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// target is the resource and namespace to which an object is written.
type target struct {
	gvr       schema.GroupVersionResource
	namespace string // empty for a cluster-scoped object
}

// read returns the request for the object of that name.
func (t target) read(name, accept string) kubeapi.Request {
	return kubeapi.Request{Resource: t.gvr, Namespace: t.namespace, Name: name, Accept: accept}
}

// write returns the request that sends body to the object of that name, or to the collection if name is empty. It
// requests only the metadata of the result, to reduce the load on the server and the network.
func (t target) write(method, name, manager, contentType string, body []byte) kubeapi.Request {
	return kubeapi.Request{
		Method: method, Resource: t.gvr, Namespace: t.namespace, Name: name, Query: writeQuery(manager),
		ContentType: contentType, Accept: kubeapi.Metadata, Body: body,
	}
}

// written is the part of the server's reply to a write that the restore uses.
type written struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             types.UID         `json:"uid"`
		Annotations     map[string]string `json:"annotations"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		ManagedFields   json.RawMessage   `json:"managedFields"`

		CreationTimestamp metav1.Time `json:"creationTimestamp"`
		DeletionTimestamp string      `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// errExists means that an object of that name exists that this restore did not create.
var errExists = errors.New("object exists")

// create creates an object as the manager that owned it. It returns errExists if there is an object of its name.
// Without failures it sends one request.
func (e *engine) create(ctx context.Context, to target, o *object.Object, own object.Ownership) (written, error) {
	if own.Apply && o.Name != "" {
		made, err := e.createByApply(ctx, to, o, own)
		if !tryPost(err) {
			return made, err
		}
	}
	request := to.write(http.MethodPost, "", own.Writer, kubeapi.JSON, o.Encode("managedFields"))
	request.Once, request.New = o.Name == "", e.served(ctx, to.gvr.GroupResource())
	reply, err := e.api.Do(ctx, request)
	if apierrors.IsAlreadyExists(err) {
		return e.exists(ctx, to, o, reply.Uncertain)
	}
	if err != nil {
		return written{}, err
	}
	return decodeWritten(reply.Body)
}

// served returns the New of a request for a resource. If others have deleted the definition that this restore has
// created, no request for the resource is repeated any more.
func (e *engine) served(ctx context.Context, gr schema.GroupResource) func() bool {
	if !e.isDefined(gr) {
		return nil
	}
	return func() bool {
		if e.isDefined(gr) && e.isUndefined(ctx, gr) {
			e.log.Error("others have deleted a definition that this restore has created", "definition", gr.String())
			e.forgetDefined(gr)
		}
		return e.isDefined(gr)
	}
}

// createByApply is create for an object that was created by server-side apply; see object.Ownership.
func (e *engine) createByApply(
	ctx context.Context, to target, o *object.Object, own object.Ownership,
) (written, error) {
	o.Metadata.Set("resourceVersion", []byte(`"1"`))
	request := to.write(http.MethodPatch, o.Name, own.Writer, kubeapi.Apply, o.Encode("managedFields"))
	o.Metadata.Remove("resourceVersion")
	request.Query.Set("force", "true")
	request.Conditional, request.New = true, e.served(ctx, to.gvr.GroupResource())
	reply, err := e.api.Do(ctx, request)
	if apierrors.IsConflict(err) {
		return e.exists(ctx, to, o, reply.Uncertain)
	}
	if err != nil {
		return written{}, err
	}
	return decodeWritten(reply.Body)
}

// tryPost reports whether a creation by apply failed for a reason that a POST may not have: apply refuses some
// objects that POST accepts, and not every server supports it.
func tryPost(err error) bool {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.ErrStatus.Code {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusMethodNotAllowed, http.StatusInternalServerError, http.StatusForbidden:
		return true
	}
	return false
}

// exists distinguishes an object that this restore has created, by a request whose reply was lost, from an object that
// existed before. It returns the former, and errExists for the latter.
func (e *engine) exists(ctx context.Context, to target, o *object.Object, uncertain bool) (written, error) {
	if !uncertain {
		return written{}, errExists
	}
	reply, err := e.api.Do(ctx, to.read(o.Name, kubeapi.Metadata))
	if err != nil {
		return written{}, errExists
	}
	found, err := decodeWritten(reply.Body)
	if err != nil {
		return written{}, err
	}
	if found.Metadata.CreationTimestamp.Before(&e.restore.CreationTimestamp) {
		return written{}, errExists
	}
	for _, label := range []string{velerov1.RestoreNameLabel, velerov1.BackupNameLabel} {
		if want := o.Labels[label]; found.Metadata.Labels[label] != want {
			return written{}, errExists
		}
	}
	return found, nil
}

// own restores the original field ownership, unless the creation has restored it.
func (e *engine) own(ctx context.Context, to target, made written, own object.Ownership) error {
	if own.Matches(made.Metadata.ManagedFields) {
		return nil
	}
	_, err := e.api.Do(ctx, to.write(http.MethodPatch, made.Metadata.Name, own.Writer, kubeapi.MergePatch, own.Patch()))
	if err != nil {
		return fmt.Errorf("restore the ownership of fields: %w", err)
	}
	return nil
}

// writeStatus restores the status of an object that has just been created.
func (e *engine) writeStatus(
	ctx context.Context, to target, o *object.Object, made written, status []byte, own object.Ownership,
) error {
	version := made.Metadata.ResourceVersion
	const attempts = 5
	for attempt := 1; ; attempt++ {
		o.Top.Set("status", status)
		o.Metadata.Set("resourceVersion", object.Quote(version))
		request := to.write(http.MethodPut, made.Metadata.Name, own.StatusWriter(), kubeapi.JSON, o.Encode("managedFields"))
		o.Top.Remove("status")
		o.Metadata.Remove("resourceVersion")
		request.Subresource, request.Conditional = "status", true
		_, err := e.api.Do(ctx, request)
		switch {
		case apierrors.IsNotFound(err):
			body := append(append([]byte(`{"status":`), status...), '}')
			return e.patchPlainStatus(ctx, to, made.Metadata.Name, body, own)
		case !apierrors.IsConflict(err) || attempt == attempts:
			return err
		}
		live, err := e.api.Do(ctx, to.read(made.Metadata.Name, kubeapi.Metadata))
		if err != nil {
			return err
		}
		now, err := decodeWritten(live.Body)
		if err != nil {
			return err
		}
		version = now.Metadata.ResourceVersion
	}
}

// patchStatus changes only the status of an object that existed before the restore.
func (e *engine) patchStatus(
	ctx context.Context, to target, name string, live, wanted any, own object.Ownership,
) error {
	before := map[string]any{}
	if live != nil {
		before["status"] = live
	}
	body, err := mergePatch(before, map[string]any{"status": wanted})
	if err != nil {
		return err
	}
	request := to.write(http.MethodPatch, name, own.StatusWriter(), kubeapi.MergePatch, body)
	request.Subresource = "status"
	if _, err = e.api.Do(ctx, request); apierrors.IsNotFound(err) {
		return e.patchPlainStatus(ctx, to, name, body, own)
	}
	return err
}

// patchPlainStatus patches the status of a type without the status subresource, which stores it like any other field.
func (e *engine) patchPlainStatus(
	ctx context.Context, to target, name string, body []byte, own object.Ownership,
) error {
	_, err := e.api.Do(ctx, to.write(http.MethodPatch, name, own.Writer, kubeapi.MergePatch, body))
	return err
}

// writeQuery returns the parameters of a write as manager. Unknown fields are dropped without a warning.
func writeQuery(manager string) url.Values {
	return url.Values{"fieldManager": {manager}, "fieldValidation": {"Ignore"}}
}

func decodeWritten(body []byte) (written, error) {
	var made written
	if err := json.Unmarshal(body, &made); err != nil {
		return written{}, fmt.Errorf("decode the reply of the API server: %w", err)
	}
	return made, nil
}
