package cli

import (
	"cmp"
	"io"
	"strconv"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/results"
)

// restoreTable is what "restore get" prints.
func restoreTable(restores []velerov1.Restore) table {
	t := table{head: []string{"NAME", "BACKUP", "STATUS", "STARTED", "COMPLETED", "ERRORS", "WARNINGS", "CREATED", "SELECTOR"}}
	for i := range restores {
		r := &restores[i]
		status := cmp.Or(string(r.Status.Phase), string(velerov1.RestorePhaseNew))
		if r.DeletionTimestamp != nil {
			status = "Deleting"
		}
		t.rows = append(t.rows, []string{
			r.Name, r.Spec.BackupName, status, formatTime(r.Status.StartTimestamp), formatTime(r.Status.CompletionTimestamp),
			strconv.Itoa(r.Status.Errors), strconv.Itoa(r.Status.Warnings), formatTime(&r.CreationTimestamp),
			formatSelector(r.Spec.LabelSelector, r.Spec.OrLabelSelectors),
		})
	}
	return t
}

// restoreDescription is what there is to tell of a restore.
type restoreDescription struct {
	Restore   *velerov1.Restore   `json:"restore"`
	Results   *results.Results    `json:"results,omitempty"`
	Resources map[string][]string `json:"resourceList,omitempty"`
	Problems  []string            `json:"problems,omitempty"` // what could not be found out
}

// print writes the doc as text.
func (doc *restoreDescription) print(w io.Writer) error {
	r := doc.Restore
	d := newDescription(w)
	printMetadata(d, &r.ObjectMeta)
	d.gap()
	lines := [][2]string{{"Phase", phaseOr(string(r.Status.Phase))}}
	if r.Status.FailureReason != "" {
		lines = append(lines, [2]string{"Failure reason", r.Status.FailureReason})
	}
	d.pairs(append(lines, [2]string{"Errors", strconv.Itoa(r.Status.Errors)}, [2]string{"Warnings", strconv.Itoa(r.Status.Warnings)})...)
	printValidationErrors(d, r.Status.ValidationErrors)
	printResults(d, doc.Results)
	d.gap()
	d.pairs(
		[2]string{"Started", formatTime(r.Status.StartTimestamp)},
		[2]string{"Completed", formatTime(r.Status.CompletionTimestamp)},
	)
	if p := r.Status.Progress; p != nil {
		d.gap()
		d.pairs([2]string{"Total items to be restored", strconv.Itoa(p.TotalItems)},
			[2]string{"Items restored", strconv.Itoa(p.ItemsRestored)})
	}
	d.gap()
	printRestoreSpec(d, &r.Spec)
	if doc.Resources != nil {
		d.gap()
		printResources(d, doc.Resources)
	}
	printProblems(d, doc.Problems)
	return d.err()
}

func printRestoreSpec(d *description, spec *velerov1.RestoreSpec) {
	d.pairs([2]string{"Backup", orNone(spec.BackupName)}, [2]string{"Schedule", orNone(spec.ScheduleName)})
	d.gap()
	d.section("Namespaces", func() {
		d.pairs([2]string{"Included", listOr(spec.IncludedNamespaces, "all namespaces found in the backup")},
			[2]string{"Excluded", listOr(spec.ExcludedNamespaces, "<none>")},
			[2]string{"Mappings", keyValues(spec.NamespaceMapping)})
	})
	d.gap()
	d.section("Resources", func() {
		d.pairs([2]string{"Included", listOr(spec.IncludedResources, "*")}, [2]string{"Excluded", listOr(spec.ExcludedResources, "<none>")},
			[2]string{"Cluster-scoped", boolOrAuto(spec.IncludeClusterResources)})
	})
	d.gap()
	d.pairs(
		[2]string{"Label selector", formatSelector(spec.LabelSelector, spec.OrLabelSelectors)},
		[2]string{"Restore PVs", boolOrAuto(spec.RestorePVs)},
		[2]string{"Existing resource policy", cmp.Or(string(spec.ExistingResourcePolicy), "<none>")},
		[2]string{"Preserve service node ports", boolOrAuto(spec.PreserveNodePorts)},
		[2]string{"Item operation timeout", spec.ItemOperationTimeout.Duration.String()},
	)
}
