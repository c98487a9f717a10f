package console

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	frameworkmanifest "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/restore"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/control/restores"
	checks "github.com/cleat-dev/cleat/server/internal/control/validation"
)

// restoreForm restores from a backup.
func restoreForm() *form {
	return &form{kind: "restore", watched: restoreKind, make: newRestore, check: checkRestore,
		fill: fillRestore, sections: []section{
			{Legend: "Restore", Fields: []field{{Name: "name", Label: "Name"}}},
			{Legend: "Which items", Fields: []field{
				{Name: "include-namespaces", Label: "Namespaces"}, {Name: "exclude-namespaces", Label: "Not these namespaces"},
				{Name: "include-resources", Label: "Resources"}, {Name: "exclude-resources", Label: "Not these resources"},
				{Name: "selector", Label: "Labels"}, {Name: "or-selector", Label: "Labels, one of several"},
				{Name: "include-cluster-resources", Label: "Cluster-scoped items"},
			}},
			{Legend: "Where to, and how", Fields: []field{
				{Name: "namespace-mappings", Label: "Into other namespaces"},
				{Name: "existing-resource-policy", Label: "What exists and differs", Choices: []choice{
					{"", "the default"}, {"none", "stays as it is"}, {"update", "is updated"}}},
				{Name: "restore-volumes", Label: "Volumes"},
				{Name: "restore-owner-references", Label: "Owners"}, {Name: "restore-finalizers", Label: "Finalizers"},
			}},
			{Legend: "More choices", More: true, Fields: []field{
				{Name: "preserve-nodeports", Label: "Node ports"},
				{Name: "status-include-resources", Label: "Status of resources"},
				{Name: "status-exclude-resources", Label: "Not the status of resources"},
				{Name: "resource-modifier-configmap", Label: "Resource modifiers"},
				{Name: "resource-policies-configmap", Label: "Resource policies"},
				{Name: "item-operation-timeout", Label: "Time for operations"},
				{Name: "write-sparse-files", Label: "Sparse files"},
				{Name: "parallel-files-download", Label: "Files at once"},
				{Name: "labels", Label: "Labels of the restore"}, {Name: "annotations", Label: "Annotations of the restore"},
			}},
		},
		path: func(l *console.Look) string { return pathOf("backups", l.Request.PathValue("name")) + "/restore" },
		flags: func(l *console.Look) (*pflag.FlagSet, func(context.Context, string) (*runs.Object, error)) {
			var flags restore.NewFlags
			set := pflag.NewFlagSet("restore", pflag.ContinueOnError)
			flags.AddTo(set)
			_ = set.Set("from-backup", l.Request.PathValue("name")) // any text can be set
			return set, func(ctx context.Context, name string) (*runs.Object, error) {
				r, err := flags.New(l.Namespace, name)
				if err != nil {
					return nil, err
				}
				if err := flags.CheckObjects(ctx, clusterOf(l)); err != nil {
					return nil, err
				}
				return runs.Restore(r), nil
			}
		},
		command: func(l *console.Look, name string) string {
			return "cleat restore create " + quoted(name) + " --from-backup=" + quoted(l.Request.PathValue("name"))
		}}
}

func newRestore() (*runs.Object, func() status.Run) {
	r := &velerov1.Restore{}
	return runs.Restore(r), func() status.Run { return status.RestoreRun(r) }
}

func restoreFormPage() console.Page {
	f := restoreForm()
	return console.Page{Path: "/backups/{name}/restore", Title: "Restore from backup {name}", Template: "form.html",
		Still: true, Act: f.act,
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			name := l.Request.PathValue("name")
			var b velerov1.Backup
			if err := get(ctx, clusterOf(l), "backup", name, &b); err != nil {
				return nil, err
			}
			doc, err := f.document(ctx, l, restore.DefaultName(name), append(notRestored(), "item")...)
			if err != nil {
				return nil, err
			}
			doc.Backup, doc.Back = name, pathOf("backups", name)
			if !canRestore(&b) {
				doc.Refused = fmt.Sprintf("backup %s is %s: a backup can be restored that is Completed or PartiallyFailed", name,
					status.BackupRun(&b).Phase)
			}
			doc.Notes = notesOn(l.Request.URL.Query())
			return doc, nil
		}}
}

func restoreDryRunPage() console.Page {
	return restoreForm().dryRunPage("/backups/{name}/restore", "Dry run of a restore from backup {name}")
}

// canRestore reports whether a backup is in a phase from which it can be restored.
func canRestore(b *velerov1.Backup) bool {
	return velerov1.BackupPhase(status.BackupRun(b).Phase).Restorable()
}

// checkRestore finds what is wrong with a restore.
func checkRestore(_ context.Context, _ *console.Look, e *entered) {
	r, _ := e.object.Object.(*velerov1.Restore)
	spec := &r.Spec
	e.checkNamespaces(spec.IncludedNamespaces, spec.ExcludedNamespaces)
	e.say("exclude-resources", checks.CheckLists(spec.IncludedResources, spec.ExcludedResources)...)
	if spec.RestoreStatus != nil {
		e.say("status-exclude-resources", checks.CheckLists(spec.RestoreStatus.IncludedResources,
			spec.RestoreStatus.ExcludedResources)...)
	}
	switch spec.ExistingResourcePolicy {
	case "", velerov1.PolicyTypeNone, velerov1.PolicyTypeUpdate:
	default:
		e.say("existing-resource-policy", fmt.Sprintf("%q: want none or update", spec.ExistingResourcePolicy))
	}
	for _, from := range slices.Sorted(maps.Keys(spec.NamespaceMapping)) {
		for _, name := range []string{from, spec.NamespaceMapping[from]} {
			if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
				e.say("namespace-mappings", fmt.Sprintf("%q is not the name of a namespace: want FROM:TO, with commas between "+
					"several", name))
			}
		}
	}
	if !e.isWrong() {
		e.problems = restores.CheckSpec(spec)
	}
}

// checkNamespaces finds what is wrong with the namespaces of a backup or restore.
func (e *entered) checkNamespaces(included, excluded []string) {
	e.say("include-namespaces", checks.CheckNamespaceNames(included)...)
	e.say("exclude-namespaces", append(checks.CheckNamespaceNames(excluded),
		checks.CheckLists(included, excluded)...)...)
}

// notRestored are the filters of what is in a backup that a restore does not have.
func notRestored() []string {
	return []string{"search", "include-cluster-scoped-resources", "exclude-cluster-scoped-resources",
		"include-namespace-scoped-resources", "exclude-namespace-scoped-resources"}
}

// notesOn returns what a link to the form says and a restore cannot.
func notesOn(values url.Values) (notes []string) {
	for _, key := range notRestored() {
		if text := strings.Join(values[key], ","); text != "" {
			notes = append(notes, fmt.Sprintf("A restore chooses by namespaces, resources and labels. It cannot choose by "+
				"%s=%s, so that is left out: a dry run lists what it would restore.", key, text))
		}
	}
	if item := values.Get("item"); item != "" {
		notes = append(notes, fmt.Sprintf("A restore chooses by namespaces, resources and labels. These are those of %s, "+
			"and other items may have the same: a dry run lists what it would restore.", item))
	}
	return notes
}

// restoreLink returns the address of a form that restores what filters select: all, a namespace, or a resource. It is
// "" for what a restore cannot say.
func restoreLink(backup string, kept url.Values, namespace *string, resource string) string {
	values := maps.Clone(kept)
	if namespace != nil {
		values.Set("include-namespaces", *namespace)
		if *namespace == "" {
			values.Del("include-namespaces")
			values.Set("include-cluster-resources", "true")
			if resource == "" {
				return ""
			}
		}
	}
	if resource != "" {
		values.Set("include-resources", resource)
	}
	link := pathOf("backups", backup) + "/restore"
	if len(values) > 0 {
		link += "?" + values.Encode()
	}
	return link
}

// restoreItemLink returns the address of a form that restores an item, as closely as a restore can say it.
func restoreItemLink(backup string, item *frameworkmanifest.Item) string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(item.Labels)) {
		labels = append(labels, key+"="+item.Labels[key])
	}
	values := url.Values{"item": {itemOf(item.Ref())}}
	if len(labels) > 0 {
		values.Set("selector", strings.Join(labels, ","))
	}
	return restoreLink(backup, values, &item.Namespace, contents.ResourceOf(item.Ref()))
}
