package archive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is one object of an archive, with its JSON.
type Object struct {
	GroupResource schema.GroupResource
	// Version is the folder of its version. It is empty for an object in the version that the API server preferred.
	Version   string
	Namespace string // empty for a cluster-scoped object
	Name      string
	JSON      []byte // until the next object is read
}

// Path returns the path of the object in the archive.
func (o Object) Path() string { return ItemPath(o.GroupResource, o.Version, o.Namespace, o.Name) }

// Walk calls object for each object in each of its versions, in the order of the archive, while it streams the archive
// in. It keeps one object in memory. It validates what Open does, except that it does not find out whether an object is
// in the archive twice. What it has read before an error is not valid.
func Walk(ctx context.Context, r io.Reader, limits Limits, object func(Object) error) error {
	var body bytes.Buffer
	_, err := scan(ctx, r, limits.orDefaults(), func(e scanned) error {
		if strings.HasSuffix(e.version, preferredSuffix) {
			return nil // the same object has a path without a version
		}
		body.Reset()
		if _, err := io.Copy(&body, e.body); err != nil {
			return e.explain(err)
		}
		if err := object(Object{e.gr, e.version, e.namespace, e.name, body.Bytes()}); err != nil {
			return fmt.Errorf("%s: %w", e.where, err)
		}
		return nil
	})
	return err
}
