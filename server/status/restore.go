package status

import (
	"cmp"
	"io"
	"strconv"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/server/status/layout"
)

// RestoreTable returns the table of "restore get".
func RestoreTable(restores []velerov1.Restore, _ time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "BACKUP", "STATUS", "STARTED", "COMPLETED", "ERRORS", "WARNINGS", "CREATED", "SELECTOR"}}
	for i := range restores {
		r := &restores[i]
		status := cmp.Or(string(r.Status.Phase), string(velerov1.RestorePhaseNew))
		if r.DeletionTimestamp != nil {
			status = "Deleting"
		}
		t.Rows = append(t.Rows, []string{
			r.Name, r.Spec.BackupName, status, layout.FormatTime(r.Status.StartTimestamp), layout.FormatTime(r.Status.CompletionTimestamp),
			strconv.Itoa(r.Status.Errors), strconv.Itoa(r.Status.Warnings), layout.FormatTime(&r.CreationTimestamp),
			formatSelector(r.Spec.LabelSelector, r.Spec.OrLabelSelectors),
		})
	}
	return t
}

// RestoreDescription is the document of "restore describe".
type RestoreDescription struct {
	Restore   *velerov1.Restore   `json:"restore"`
	Results   *results.Results    `json:"results,omitempty"`
	Resources map[string][]string `json:"resourceList,omitempty"`
	Problems  []string            `json:"problems,omitempty"` // errors while the document was composed
}

// Print writes the document as text.
func (doc *RestoreDescription) Print(w io.Writer) error {
	r := doc.Restore
	d := layout.NewDescription(w)
	printMetadata(d, &r.ObjectMeta)
	d.Gap()
	lines := [][2]string{{"Phase", PhaseOrNew(string(r.Status.Phase))}}
	lines = append(lines, attempts(r)...)
	if r.Status.FailureReason != "" {
		lines = append(lines, [2]string{"Failure reason", r.Status.FailureReason})
	}
	d.Pairs(append(lines, [2]string{"Errors", strconv.Itoa(r.Status.Errors)}, [2]string{"Warnings", strconv.Itoa(r.Status.Warnings)})...)
	printValidationErrors(d, r.Status.ValidationErrors)
	printResults(d, doc.Results)
	d.Gap()
	d.Pairs(
		[2]string{"Started", layout.FormatTime(r.Status.StartTimestamp)},
		[2]string{"Completed", layout.FormatTime(r.Status.CompletionTimestamp)},
	)
	if p := r.Status.Progress; p != nil {
		d.Gap()
		d.Pairs([2]string{"Total items to be restored", strconv.Itoa(p.TotalItems)},
			[2]string{"Items restored", strconv.Itoa(p.ItemsRestored)})
	}
	d.Gap()
	printRestoreSpec(d, &r.Spec)
	if doc.Resources != nil {
		d.Gap()
		printResources(d, doc.Resources)
	}
	printProblems(d, doc.Problems)
	return d.Err()
}

func printRestoreSpec(d *layout.Description, spec *velerov1.RestoreSpec) {
	d.Pairs([2]string{"Backup", layout.OrNone(spec.BackupName)}, [2]string{"Schedule", layout.OrNone(spec.ScheduleName)})
	d.Gap()
	d.Section("Namespaces", func() {
		d.Pairs([2]string{"Included", layout.ListOr(spec.IncludedNamespaces, "all namespaces found in the backup")},
			[2]string{"Excluded", layout.ListOr(spec.ExcludedNamespaces, "<none>")},
			[2]string{"Mappings", layout.KeyValues(spec.NamespaceMapping)})
	})
	d.Gap()
	d.Section("Resources", func() {
		d.Pairs([2]string{"Included", layout.ListOr(spec.IncludedResources, "*")}, [2]string{"Excluded", layout.ListOr(spec.ExcludedResources, "<none>")},
			[2]string{"Cluster-scoped", layout.BoolOrAuto(spec.IncludeClusterResources)})
	})
	d.Gap()
	d.Pairs(
		[2]string{"Label selector", formatSelector(spec.LabelSelector, spec.OrLabelSelectors)},
		[2]string{"Restore PVs", layout.BoolOrAuto(spec.RestorePVs)},
		[2]string{"Existing resource policy", cmp.Or(string(spec.ExistingResourcePolicy), "<none>")},
		[2]string{"Preserve service node ports", layout.BoolOrAuto(spec.PreserveNodePorts)},
		[2]string{"Item operation timeout", spec.ItemOperationTimeout.Duration.String()},
	)
}
