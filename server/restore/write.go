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
)

// target is where an object is written to.
type target struct {
	gvr       schema.GroupVersionResource
	namespace string // "" for a cluster-scoped one
}

func (t target) path() string                  { return resourcePath(t.gvr, t.namespace) }
func (t target) objectPath(name string) string { return objectPath(t.gvr, t.namespace, name) }

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
	r, err := e.api.do(ctx, call{
		method: http.MethodPost, path: to.path(), query: writeQuery(own.writer),
		content: mediaJSON, accept: mediaMetadata, body: o.encode("managedFields"),
		once: o.Name == "", settling: e.isFresh(to.gvr.GroupResource()),
	})
	if apierrors.IsAlreadyExists(err) {
		return e.exists(ctx, to, o, r.repeated)
	}
	if err != nil {
		return written{}, err
	}
	return decodeWritten(r.body)
}

// createByApply is create for an object that was made by server-side apply; see ownership.
func (e *engine) createByApply(ctx context.Context, to target, o *object, own ownership) (written, error) {
	o.meta.set("resourceVersion", []byte(`"1"`))
	body := o.encode("managedFields")
	o.meta.remove("resourceVersion")
	r, err := e.api.do(ctx, call{
		method: http.MethodPatch, path: to.objectPath(o.Name), query: writeQuery(own.writer) + "&force=true",
		content: mediaApply, accept: mediaMetadata, body: body,
		conditional: true, settling: e.isFresh(to.gvr.GroupResource()),
	})
	if apierrors.IsConflict(err) {
		return e.exists(ctx, to, o, r.repeated)
	}
	if err != nil {
		return written{}, err
	}
	return decodeWritten(r.body)
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
func (e *engine) exists(ctx context.Context, to target, o *object, repeated bool) (written, error) {
	if !repeated {
		return written{}, errExists
	}
	body, err := e.api.get(ctx, to.objectPath(o.Name), mediaMetadata)
	if err != nil {
		return written{}, errExists
	}
	found, err := decodeWritten(body)
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
	_, err := e.api.do(ctx, call{
		method: http.MethodPatch, path: to.objectPath(made.Metadata.Name), query: writeQuery(own.writer),
		content: mediaMergePatch, accept: mediaMetadata, body: own.patch(),
	})
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
		body := o.encode("managedFields")
		o.top.remove("status")
		o.meta.remove("resourceVersion")
		_, err := e.api.do(ctx, call{
			method: http.MethodPut, path: to.objectPath(made.Metadata.Name) + "/status", query: writeQuery(own.statusWriter()),
			content: mediaJSON, accept: mediaMetadata, body: body, conditional: true,
		})
		switch {
		case apierrors.IsNotFound(err):
			// Types without the subresource hold their status like any other field.
			_, err := e.api.do(ctx, call{
				method: http.MethodPatch, path: to.objectPath(made.Metadata.Name), query: writeQuery(own.writer),
				content: mediaMergePatch, accept: mediaMetadata, body: append(append([]byte(`{"status":`), status...), '}'),
			})
			return err
		case !apierrors.IsConflict(err) || try == tries:
			return err
		}
		live, err := e.api.get(ctx, to.objectPath(made.Metadata.Name), mediaMetadata)
		if err != nil {
			return err
		}
		now, err := decodeWritten(live)
		if err != nil {
			return err
		}
		version = now.Metadata.ResourceVersion
	}
}

// writeQuery asks the server to write as manager, and not to look for unknown fields: it drops them in
// silence, as it does for every client that does not ask.
func writeQuery(manager string) string {
	return "fieldManager=" + url.QueryEscape(manager) + "&fieldValidation=Ignore"
}

func decodeWritten(body []byte) (written, error) {
	var made written
	if err := json.Unmarshal(body, &made); err != nil {
		return written{}, fmt.Errorf("decode the API server's answer: %w", err)
	}
	return made, nil
}
