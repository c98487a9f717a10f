package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/kubeapi"
)

// target is where an object is written to.
type target struct {
	gvr       schema.GroupVersionResource
	namespace string // "" for a cluster-scoped one
}

// read returns the request for the object of that name.
func (t target) read(name, accept string) kubeapi.Request {
	return kubeapi.Request{Resource: t.gvr, Namespace: t.namespace, Name: name, Accept: accept}
}

// write returns the request that sends body to the object of that name, or to the collection if name is empty. Only the
// metadata of the result is requested, which spares the server and the network the rest.
func (t target) write(method, name, manager, contentType string, body []byte) kubeapi.Request {
	return kubeapi.Request{
		Method: method, Resource: t.gvr, Namespace: t.namespace, Name: name, Query: writeQuery(manager),
		ContentType: contentType, Accept: kubeapi.Metadata, Body: body,
	}
}

// written is what the server says about an object that it wrote.
type written struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		ManagedFields   json.RawMessage   `json:"managedFields"`
	} `json:"metadata"`
}

// errExists says that an object of that name exists and was not made by this restore.
var errExists = errors.New("object exists")

// create writes a new object as the manager that owned it, and nothing if there is one of its name: then
// the error is errExists. It is one request, unless something goes wrong.
func (e *engine) create(ctx context.Context, to target, o *object, own ownership) (written, error) {
	if own.apply && o.Name != "" {
		made, err := e.createByApply(ctx, to, o, own)
		if !tryPost(err) {
			return made, err
		}
	}
	request := to.write(http.MethodPost, "", own.writer, kubeapi.JSON, o.encode("managedFields"))
	request.Once, request.New = o.Name == "", e.isFresh(to.gvr.GroupResource())
	reply, err := e.api.Do(ctx, request)
	if apierrors.IsAlreadyExists(err) {
		return e.exists(ctx, to, o, reply.Uncertain)
	}
	if err != nil {
		return written{}, err
	}
	return decodeWritten(reply.Body)
}

// createByApply is create for an object that was made by server-side apply; see ownership.
func (e *engine) createByApply(ctx context.Context, to target, o *object, own ownership) (written, error) {
	o.meta.set("resourceVersion", []byte(`"1"`))
	request := to.write(http.MethodPatch, o.Name, own.writer, kubeapi.Apply, o.encode("managedFields"))
	o.meta.remove("resourceVersion")
	request.Query.Set("force", "true")
	request.Conditional, request.New = true, e.isFresh(to.gvr.GroupResource())
	reply, err := e.api.Do(ctx, request)
	if apierrors.IsConflict(err) {
		return e.exists(ctx, to, o, reply.Uncertain)
	}
	if err != nil {
		return written{}, err
	}
	return decodeWritten(reply.Body)
}

// tryPost says whether a creation by apply failed for reasons that may be those of apply: it refuses some
// objects that a POST accepts, and not every server has it.
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

// exists tells an object that this restore made, with a request whose answer was lost, from one that was
// there before.
func (e *engine) exists(ctx context.Context, to target, o *object, uncertain bool) (written, error) {
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
	for _, label := range []string{velerov1.RestoreNameLabel, velerov1.BackupNameLabel} {
		if want := o.Labels[label]; found.Metadata.Labels[label] != want {
			return written{}, errExists
		}
	}
	return found, nil
}

// own puts the original field ownership in place where the creation did not.
func (e *engine) own(ctx context.Context, to target, made written, own ownership) error {
	if own.settled(made.Metadata.ManagedFields) {
		return nil
	}
	_, err := e.api.Do(ctx, to.write(http.MethodPatch, made.Metadata.Name, own.writer, kubeapi.MergePatch, own.patch()))
	if err != nil {
		return fmt.Errorf("put back who owns which fields: %w", err)
	}
	return nil
}

// writeStatus writes the status that was backed up to an object that was made just now.
func (e *engine) writeStatus(ctx context.Context, to target, o *object, made written, status []byte, own ownership) error {
	version := made.Metadata.ResourceVersion
	const tries = 5
	for try := 1; ; try++ {
		o.top.set("status", status)
		o.meta.set("resourceVersion", quoteJSON(version))
		request := to.write(http.MethodPut, made.Metadata.Name, own.statusWriter(), kubeapi.JSON, o.encode("managedFields"))
		o.top.remove("status")
		o.meta.remove("resourceVersion")
		request.Subresource, request.Conditional = "status", true
		_, err := e.api.Do(ctx, request)
		switch {
		case apierrors.IsNotFound(err):
			// Types without the subresource hold their status like any other field.
			body := append(append([]byte(`{"status":`), status...), '}')
			_, err := e.api.Do(ctx, to.write(http.MethodPatch, made.Metadata.Name, own.writer, kubeapi.MergePatch, body))
			return err
		case !apierrors.IsConflict(err) || try == tries:
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

// writeQuery asks the server to write as manager, and not to look for unknown fields: it drops them in
// silence, as it does for every client that does not ask.
func writeQuery(manager string) url.Values {
	return url.Values{"fieldManager": {manager}, "fieldValidation": {"Ignore"}}
}

func decodeWritten(body []byte) (written, error) {
	var made written
	if err := json.Unmarshal(body, &made); err != nil {
		return written{}, fmt.Errorf("decode the API server's answer: %w", err)
	}
	return made, nil
}
