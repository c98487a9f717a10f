package backup

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/engine/backup/pages"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/spec/gaps"
)

// close backs up the objects that other objects in the backup need: namespaces and custom resource definitions.
func (e *engine) close(ctx context.Context) error {
	if err := e.backUpNamespaces(ctx); err != nil {
		return err
	}
	if err := e.backUpDefinitions(ctx); err != nil {
		return err
	}
	e.warnOfLostData()
	return nil
}

// warnOfLostData warns that the data of volumes is not backed up, if there are such volumes and the spec does not
// exclude their data. The warning names the fields of the spec that have no effect on volumes.
func (e *engine) warnOfLostData() {
	spec := &e.req.Backup.Spec
	e.volumes.settleAwaited()
	e.volumes.infos.SkipOpen(func(namespace, name string) bool {
		return e.seen.has(e.seen.key(claimsResource.Group, claimsResource.Resource, namespace, name))
	}, noClaim)
	without := e.volumes.withoutData()
	fields := ""
	if e.record.count(volumesResource) > 0 {
		fields = gaps.Fields(gaps.BackupVolumes(e.volumes.hasCSI), spec)
	}
	text := ""
	if without > 0 {
		text = fmt.Sprintf("the data of %d persistent volumes is not backed up: no volume snapshot location of the backup "+
			"has it, no pod that runs backs it up from the file system, and no plugin takes a CSI snapshot of it", without)
	}
	switch {
	case text+fields == "":
	case fields == "":
		e.warn(text + "; set spec.snapshotVolumes to false to do without it")
	case text == "":
		e.gap("no plugin takes such snapshots of the volumes, so these have no effect: " + fields)
	default:
		e.gap(text + "; so these have no effect: " + fields)
	}
}

// backUpNamespaces backs up the namespaces themselves. If the spec selects all namespaces and some labels, these are
// the namespaces that have the labels or contain an object with them.
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
			if selected, decided := e.sel.rules.Select(namespacesResource, resource.Kind, "", meta.Name, meta.Labels); decided &&
				!selected {
				return nil
			}
			if e.sel.namespaces.Everything() && !e.sel.selectors.Match(meta.Labels) && !e.record.collectedFrom(meta.Name) {
				return nil
			}
		}
		e.record.expect(1)
		included := manifest.Inclusion{By: manifest.ByFilters}
		if e.record.collectedFrom(meta.Name) {
			included.By = manifest.ByContent
		}
		b := &block{objects: []object{{resource: resource, raw: raw, listed: true, chosen: true, included: included}}}
		if e.blockActions.Concerns(namespacesResource) {
			end = e.relate(ctx, b)
		}
		if end == nil {
			end = e.block(ctx, b)
		}
		return end
	})
	if err != nil && end == nil && ctx.Err() == nil {
		e.listFailed(&pages.List{Resource: resource}, err)
		return nil
	}
	return err
}

// backUpDefinitions backs up the definitions of the custom resources in the backup, because a restore needs them,
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
		o := object{resource: definitions, raw: raw, listed: true, chosen: true,
			included: manifest.Inclusion{By: manifest.ByContent}}
		if _, err := e.object(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
