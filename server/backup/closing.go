package backup

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/backup/pages"
	"github.com/cleat-dev/cleat/server/gaps"
	"github.com/cleat-dev/cleat/server/item"
)

// close backs up the objects that depend on those in the backup: namespaces and custom resource definitions.
func (e *engine) close(ctx context.Context) error {
	if err := e.backUpNamespaces(ctx); err != nil {
		return err
	}
	if err := e.backUpDefinitions(ctx); err != nil {
		return err
	}
	e.warnOfVolumes()
	return nil
}

// warnOfVolumes warns that the data of volumes is not backed up, if there are volumes and the spec does not say that it is not
// wanted. The warning names the fields of the spec that have no effect because of that.
func (e *engine) warnOfVolumes() {
	spec := &e.req.Backup.Spec
	fields := gaps.Fields(gaps.BackupVolumes(), spec)
	if e.req.Policy != nil && e.req.Policy.VolumePolicies > 0 {
		fields = strings.TrimPrefix(fields+", the volumePolicies of the resource policy", ", ")
	}
	claims, inPods := e.record.count(volumesResource), e.record.podVolumeCount()
	unwanted := spec.SnapshotVolumes != nil && !*spec.SnapshotVolumes
	if claims+inPods == 0 || unwanted && fields == "" {
		return
	}
	text := fmt.Sprintf("the data of %d persistent volumes is not backed up", claims)
	if inPods > 0 {
		text = fmt.Sprintf("the data of %d persistent volumes and of %d volumes of pods is not backed up", claims, inPods)
	}
	text += ": snapshots, data movement and file system backups are not supported yet"
	if fields != "" {
		e.gap(text + "; so these have no effect: " + fields)
		return
	}
	e.warn(text + "; set spec.snapshotVolumes to false to do without them")
}

// backUpNamespaces backs up the namespaces themselves. If the spec selects all namespaces and some labels,
// these are the namespaces that have the labels or contain an object that has them.
func (e *engine) backUpNamespaces(ctx context.Context) error {
	resource, ok := e.sel.snapshot.ByGroupResource(namespacesResource)
	if !ok || !e.sel.resources.Includes(resource) {
		return nil
	}
	var end error
	err := e.eachOf(ctx, pages.List{Resource: resource}, func(raw []byte) error {
		meta, err := item.ParseMeta(raw)
		if err == nil {
			if !e.sel.namespaces.Match(meta.Name) {
				return nil
			}
			if selected, decided := e.sel.rules.Select(namespacesResource, resource.Kind, "", meta.Name, meta.Labels); decided && !selected {
				return nil
			}
			if e.sel.namespaces.Everything() && !e.sel.matches(meta.Labels) && !e.record.collectedFrom(meta.Name) {
				return nil
			}
		}
		e.record.expect(1)
		_, end = e.object(ctx, object{resource: resource, raw: raw, listed: true, chosen: true})
		return end
	})
	if err != nil && end == nil && ctx.Err() == nil {
		e.listFailed(&pages.List{Resource: resource}, err)
		return nil
	}
	return err
}

// backUpDefinitions backs up the definitions of the custom resources in the backup, which a restore needs,
// unless definitions are excluded.
func (e *engine) backUpDefinitions(ctx context.Context) error {
	definitions, ok := e.sel.snapshot.ByGroupResource(crdsResource)
	if !ok || e.sel.resources.Excludes(definitions) {
		return nil
	}
	for _, gr := range e.record.resources() {
		// The group of a custom resource is a domain.
		if !strings.Contains(gr.Group, ".") {
			continue
		}
		if e.seen.has(e.seen.key(crdsResource.Group, crdsResource.Resource, "", gr.String())) {
			continue
		}
		raw, err := e.get(ctx, definitions, "", gr.String())
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsNotFound(err):
			continue // a built-in or aggregated resource
		case err != nil:
			e.record.failed(crdsResource, "", gr.String(), fmt.Sprintf("cannot read the definition of %s", gr), err)
			continue
		}
		e.record.expect(1)
		if _, err := e.object(ctx, object{resource: definitions, raw: raw, listed: true, chosen: true}); err != nil {
			return err
		}
	}
	return nil
}
