package restore

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// chooseVersion chooses a version of a resource if the archive has several. Custom resource definitions are restored
// in the preferred version of their cluster.
func (e *engine) chooseVersion(gr schema.GroupResource) {
	source, others := e.archive.Versions(gr)
	served, ok := e.snapshot.Load().ByGroupResource(gr)
	if len(others) == 0 || !ok {
		return
	}
	version, why := plan.ChooseVersion(e.versions[gr.String()], source, others, served)
	if version != source {
		e.archive.Use(gr, version)
	}
	e.log.Info("chose the version to restore", "resource", gr.String(), "version", version, "reason", why)
}

// logUnknownVersions logs the preferred versions whose resources do not exist. They come from the server's settings,
// so they are not a problem of the restore.
func (e *engine) logUnknownVersions() {
	for _, name := range slices.Sorted(maps.Keys(e.versions)) {
		gr := schema.ParseGroupResource(name)
		if _, served := e.snapshot.Load().ByGroupResource(gr); !served && e.archive.Count(gr) == 0 {
			e.log.Warn("versions are preferred of a resource that neither the cluster nor the backup has; write its plural "+
				"name and its group", "resource", name)
		}
	}
}

// lookAgain checks whether the cluster now serves a resource in a version that the archive has, if it did not before or
// if the restore has changed the definition.
// It must be called before an object of the resource is restored; entries are its objects.
func (e *engine) lookAgain(ctx context.Context, helper *discovery.Helper, gr schema.GroupResource) error {
	if e.hasServedVersion(gr) && !e.isRedefined(gr) {
		return nil
	}
	snapshot, err := e.discover(ctx, helper)
	if err != nil {
		if fatal(ctx, err) {
			return err
		}
		e.log.Warn("could not look again for a version that the cluster serves", "resource", gr.String(), "error", err)
		return nil // the objects report it
	}
	if err := e.use(snapshot); err != nil {
		return err
	}
	e.chooseVersion(gr)
	return nil
}

// hasServedVersion reports whether the cluster serves a resource in a version that the archive has. It is true for a
// resource without a choice of versions.
func (e *engine) hasServedVersion(gr schema.GroupResource) bool {
	source, others := e.archive.Versions(gr)
	if len(others) == 0 {
		return true
	}
	resource, known := e.snapshot.Load().ByGroupResource(gr)
	return known && slices.ContainsFunc(append(others, source), resource.Serves)
}
