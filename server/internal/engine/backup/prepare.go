package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/backup/pages"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// prepare resolves all settings that are fixed for the whole run.
func (e *engine) prepare(ctx context.Context) error {
	snapshot, err := e.connect(ctx)
	if err != nil {
		return err
	}
	if e.sel, err = e.newSelection(ctx, snapshot); err != nil {
		return err
	}
	if err := e.prepareHooks(snapshot); err != nil {
		return err
	}
	return e.prepareActions(ctx, snapshot)
}

// prepareHooks reads the hooks of the spec. A dry run has none.
func (e *engine) prepareHooks(snapshot *discovery.Snapshot) error {
	if e.dry != nil {
		return nil
	}
	executor, err := hook.NewExecutor(e.deps.Config, e.retryFor())
	if err == nil {
		e.hooks, err = hook.NewBackup(&e.req.Backup.Spec.Hooks, executor, snapshot.Resolve)
	}
	if err != nil {
		return fmt.Errorf("spec.hooks: %w", err)
	}
	return nil
}

func (e *engine) retryFor() time.Duration { return cmp.Or(e.deps.RetryFor, 2*time.Minute) }

// connect returns the resources that the API server serves.
func (e *engine) connect(ctx context.Context) (snapshot *discovery.Snapshot, err error) {
	if e.client, err = kubeapi.New(e.deps.Config, e.log, e.retryFor()); err != nil {
		return nil, err
	}
	err = e.client.Retry(ctx, "discovery", func(ctx context.Context) (err error) {
		snapshot, err = e.deps.Discovery.SnapshotWith(ctx, e.resourceNames())
		return err
	})
	return snapshot, err
}

// prepareActions resolves the selectors of actions, and encodes the backup for them.
func (e *engine) prepareActions(ctx context.Context, snapshot *discovery.Snapshot) (err error) {
	if e.actions, err = itemaction.NewSet(ctx, e.req.Actions, e.deps.CSI, e.deps.Roles, e.log); err != nil {
		return err
	}
	if e.blockActions, err = itemaction.NewSet(ctx, e.req.BlockActions, e.deps.CSI, e.deps.Roles, e.log); err != nil {
		return err
	}
	if err := errors.Join(e.actions.Resolve(snapshot), e.blockActions.Resolve(snapshot)); err != nil {
		return err
	}
	backup, err := json.Marshal(e.req.Backup)
	if err != nil {
		return fmt.Errorf("encode the backup for plugins: %w", err)
	}
	if e.deps.Uploader != "" {
		if backup, err = item.WithAnnotation(backup, velerov1.UploaderTypeAnnotation, e.deps.Uploader); err != nil {
			return fmt.Errorf("encode the backup for plugins: %w", err)
		}
	}
	e.backupJSON, err = e.deps.Keys.ForPlugins(ctx, "Backup", e.req.Backup.UID, backup)
	return err
}

// newSelection resolves the filters of the spec and records names that do not exist.
func (e *engine) newSelection(ctx context.Context, snapshot *discovery.Snapshot) (*selection, error) {
	spec := &e.req.Backup.Spec
	sel := &selection{snapshot: snapshot}
	for _, warning := range snapshot.Warnings() {
		e.warn(warning)
	}
	var err error
	if sel.selectors, err = filter.NewSelectors(spec.LabelSelector, spec.OrLabelSelectors); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	if sel.namespaces, err = e.namespaceFilter(ctx, snapshot); err != nil {
		return nil, err
	}
	var fromPolicy filter.ScopedLists
	if policy := e.req.Policy; policy != nil && policy.Resources != nil {
		fromPolicy = *policy.Resources
	}
	var unresolved []string
	sel.resources, unresolved, err = filter.NewResources(filter.ResourceLists{
		Included: spec.IncludedResources, Excluded: spec.ExcludedResources, IncludeCluster: spec.IncludeClusterResources,
		IncludedClusterScoped: spec.IncludedClusterScopedResources,
		ExcludedClusterScoped: spec.ExcludedClusterScopedResources,
		IncludedNamespaced:    spec.IncludedNamespaceScopedResources,
		ExcludedNamespaced:    spec.ExcludedNamespaceScopedResources,
		Policy:                fromPolicy, AlwaysExcluded: alwaysExcluded(),
	}, sel.namespaces, snapshot)
	if err != nil {
		return nil, fmt.Errorf("resource filters of the spec: %w", err)
	}
	if policy := e.req.Policy; policy != nil {
		var warnings []string
		if sel.rules, warnings, err = filter.NewRules(policy.Rules, snapshot); err != nil {
			return nil, fmt.Errorf("resource policy of the backup: %w", err)
		}
		for _, warning := range warnings {
			e.warn("spec.resourcePolicy: " + warning)
		}
	}
	for _, name := range unresolved {
		e.warn(fmt.Sprintf("spec.%s is not a resource of this cluster that this filter can be used for; it matches nothing",
			name))
	}
	return sel, nil
}

// namespaceFilter resolves the namespaces of the spec against those of the cluster.
func (e *engine) namespaceFilter(ctx context.Context, snapshot *discovery.Snapshot) (filter.Namespaces, error) {
	resource, ok := snapshot.ByGroupResource(namespacesResource)
	if !ok {
		return filter.Namespaces{}, errors.New("the API server does not serve namespaces")
	}
	var existing, excluded, terminating []string
	err := e.eachOf(ctx, pages.List{Resource: resource}, func(raw []byte) error {
		meta, err := item.ParseMeta(raw)
		if err != nil {
			return fmt.Errorf("read a namespace: %w", err)
		}
		existing = append(existing, meta.Name)
		if meta.Labels[excludeLabel] == "true" {
			excluded = append(excluded, meta.Name)
		}
		if meta.Deleting() {
			terminating = append(terminating, meta.Name)
		}
		return nil
	})
	if err != nil {
		return filter.Namespaces{}, fmt.Errorf("list the namespaces of the cluster: %w", err)
	}

	// Namespaces that are labelled for exclusion do not limit the filter to some namespaces, even if the server has
	// written them into the spec.
	spec := &e.req.Backup.Spec
	var excludes []string
	for _, name := range spec.ExcludedNamespaces {
		if !slices.Contains(excluded, name) {
			excludes = append(excludes, name)
		}
	}
	ns, err := filter.NewNamespaces(spec.IncludedNamespaces, excludes, existing)
	if err != nil {
		return filter.Namespaces{}, fmt.Errorf("namespaces of the spec: %w", err)
	}
	ns = ns.Without(excluded...)
	for _, name := range ns.Missing() {
		e.record.results.RunError(results.Message{Resource: "namespaces", Name: name,
			Text: "namespace of spec.includedNamespaces does not exist"}.String())
		e.log.Error("namespace of spec.includedNamespaces does not exist", "name", name)
	}
	for _, name := range ns.Unmatched() {
		e.warn(fmt.Sprintf("spec.%s matches no namespace of the cluster", name))
	}
	for _, name := range terminating {
		if ns.Match(name) {
			e.record.warned(namespacesResource, name, name,
				"namespace is terminating, it is left out with the objects in it that are being deleted", nil)
			e.log.Warn("namespace is terminating", "namespace", name)
		}
	}
	return ns, nil
}

// warn records a warning about the backup as a whole.
func (e *engine) warn(text string) {
	e.record.results.RunWarning(results.Message{Text: text}.String())
	e.log.Warn(text)
}
