package console

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/backup"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/control/backups"
	checks "github.com/cleat-dev/cleat/server/internal/control/validation"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// backupForm backs up.
func backupForm() *form {
	return &form{kind: "backup", watched: backupKind, make: newBackup, check: checkBackup,
		fill: fillBackup, sections: []section{
			{Legend: "Backup", Fields: []field{
				{Name: "name", Label: "Name"}, {Name: "from-schedule", Label: "From a schedule"},
			}},
			{Legend: "Which items", Fields: []field{
				{Name: "include-namespaces", Label: "Namespaces"}, {Name: "exclude-namespaces", Label: "Not these namespaces"},
				{Name: "include-resources", Label: "Resources"}, {Name: "exclude-resources", Label: "Not these resources"},
				{Name: "selector", Label: "Labels"}, {Name: "or-selector", Label: "Labels, one of several"},
				{Name: "include-cluster-resources", Label: "Cluster-scoped items"},
			}},
			{Legend: "Volumes, and where to", Fields: []field{
				{Name: "snapshot-volumes", Label: "Snapshots of volumes"},
				{Name: "snapshot-move-data", Label: "Move the data of snapshots"},
				{Name: "default-volumes-to-fs-backup", Label: "Volumes from the file system"},
				{Name: "storage-location", Label: "Location"}, {Name: "ttl", Label: "Kept for"},
			}},
			{Legend: "More choices", More: true, Fields: []field{
				{Name: "include-cluster-scoped-resources", Label: "Cluster-scoped resources"},
				{Name: "exclude-cluster-scoped-resources", Label: "Not these cluster-scoped resources"},
				{Name: "include-namespace-scoped-resources", Label: "Namespaced resources"},
				{Name: "exclude-namespace-scoped-resources", Label: "Not these namespaced resources"},
				{Name: "volume-snapshot-locations", Label: "Snapshot locations"},
				{Name: "ordered-resources", Label: "Order"}, {Name: "data-mover", Label: "Data mover"},
				{Name: "resource-policies-configmap", Label: "Resource policies"},
				{Name: "csi-snapshot-timeout", Label: "Time for a snapshot"},
				{Name: "item-operation-timeout", Label: "Time for operations"},
				{Name: "parallel-files-upload", Label: "Files at once"},
				{Name: "labels", Label: "Labels of the backup"}, {Name: "annotations", Label: "Annotations of the backup"},
			}},
		},
		path: func(*console.Look) string { return "/new-backup" },
		flags: func(l *console.Look) (*pflag.FlagSet, func(context.Context, string) (*runs.Object, error)) {
			var flags backup.NewFlags
			set := pflag.NewFlagSet("backup", pflag.ContinueOnError)
			flags.AddTo(set)
			return set, func(ctx context.Context, name string) (*runs.Object, error) {
				if err := backup.CheckFromSchedule(set, &pflag.FlagSet{}, "name"); err != nil {
					return nil, err
				}
				b, err := flags.New(ctx, clusterOf(l), name)
				if err != nil {
					return nil, err
				}
				var wrong *command.FlagError
				if errors.As(flags.CheckObjects(ctx, clusterOf(l)), &wrong) && wrong.Flag != backup.StorageLocation {
					return nil, wrong // checkBackup checks the location, and says what others there are
				}
				return runs.Backup(b), nil
			}
		},
		command: func(_ *console.Look, name string) string { return "cleat backup create " + quoted(name) }}
}

func newBackup() (*runs.Object, func() status.Run) {
	b := &velerov1.Backup{}
	return runs.Backup(b), func() status.Run { return status.BackupRun(b) }
}

func backupFormPage() console.Page {
	f := backupForm()
	return console.Page{Path: "/new-backup", Title: "New backup", Template: "form.html", Still: true, Act: f.act,
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			base := "backup"
			if schedule := l.Value("from-schedule"); schedule != "" {
				base = schedule
			}
			doc, err := f.document(ctx, l, base+"-"+time.Now().UTC().Format("20060102150405"))
			if err != nil {
				return nil, err
			}
			doc.Back = "/backups"
			schedules, _ := console.List[*velerov1.Schedule](l, scheduleKind) // without them, their names can be written
			doc.offer("from-schedule", "none: what is chosen below", namesOf(schedules))
			locations, _ := console.List[*velerov1.BackupStorageLocation](l, locationKind)
			doc.offer("storage-location", "the default", namesOf(locations))
			return doc, nil
		}}
}

func backupDryRunPage() console.Page {
	return backupForm().dryRunPage("/new-backup", "Dry run of a backup")
}

func namesOf[T object](objects []T) (names []string) {
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}

// checkBackup finds what is wrong with a backup.
func checkBackup(ctx context.Context, l *console.Look, e *entered) {
	b, _ := e.object.Object.(*velerov1.Backup)
	spec := &b.Spec
	e.checkNamespaces(spec.IncludedNamespaces, spec.ExcludedNamespaces)
	e.say("exclude-resources", checks.CheckLists(spec.IncludedResources, spec.ExcludedResources)...)
	e.say("exclude-cluster-scoped-resources", checks.CheckScopedLists(spec.IncludedClusterScopedResources,
		spec.ExcludedClusterScopedResources)...)
	e.say("exclude-namespace-scoped-resources", checks.CheckScopedLists(spec.IncludedNamespaceScopedResources,
		spec.ExcludedNamespaceScopedResources)...)
	if name := e.values.Get("storage-location"); name != "" && e.wrong["storage-location"] == "" {
		err := get(ctx, clusterOf(l), "location", name, &velerov1.BackupStorageLocation{})
		if errors.As(err, new(console.Missing)) {
			locations, _ := console.List[*velerov1.BackupStorageLocation](l, locationKind) // who may not list them sees none
			e.say("storage-location", "there is no location "+name+": want "+layout.ListOr(namesOf(locations), "another one"))
		} else if err != nil && !apierrors.IsForbidden(err) { // the server looks too
			e.problems = append(e.problems, err.Error())
		}
	}
	if !e.isWrong() && e.values.Get("from-schedule") == "" {
		e.problems = backups.CheckSpec(spec)
	}
}
