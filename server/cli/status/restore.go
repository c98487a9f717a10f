package status

import (
	"cmp"
	"io"
	"strconv"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// RestoreTable returns the table of "restore get".
func RestoreTable(restores []velerov1.Restore, _ time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "BACKUP", "STATUS", "STARTED", "COMPLETED", "ERRORS", "WARNINGS", "CREATED",
		"SELECTOR"}}
	for i := range restores {
		r := &restores[i]
		status := phaseOf(r, string(r.Status.Phase))
		if r.DeletionTimestamp != nil {
			status = "Deleting"
		}
		t.Rows = append(t.Rows, []string{
			r.Name, r.Spec.BackupName, status, layout.FormatTime(r.Status.StartTimestamp),
			layout.FormatTime(r.Status.CompletionTimestamp),
			strconv.Itoa(r.Status.Errors), strconv.Itoa(r.Status.Warnings), layout.FormatTime(&r.CreationTimestamp),
			formatSelector(r.Spec.LabelSelector, r.Spec.OrLabelSelectors),
		})
	}
	return t
}

// RestoreDescription is the output of "restore describe", also as JSON, which Velero does not have.
type RestoreDescription struct {
	Restore   *velerov1.Restore   `json:"restore"`
	Results   *results.Results    `json:"results,omitempty"`
	Resources map[string][]string `json:"resourceList,omitempty"`
	// Operations are those of details, as they were at its time.
	Operations *serverreport.Operations    `json:"operations,omitempty"`
	Volumes    []volumes.RestoreVolumeInfo `json:"volumes,omitempty"`
	PodVolumes []PodVolume                 `json:"podVolumes,omitempty"`
	Movements  []Movement                  `json:"dataMovements,omitempty"`
	Pace       string                      `json:"pace,omitempty"` // of the items, while they are restored
	// Order is that of the items: while the restore is at work, and with details.
	Order    *outcome.Plan `json:"order,omitempty"`
	Problems []string      `json:"problems,omitempty"` // errors while the document was composed
	Details  bool          `json:"-"`
	AtWork   bool          `json:"-"`
}

// Document returns the description.
func (doc *RestoreDescription) Document() any { return doc }

// Print writes the document as text.
func (doc *RestoreDescription) Print(w io.Writer) error {
	r := doc.Restore
	d := layout.NewDescription(w)
	printMetadata(d, &r.ObjectMeta)
	d.Gap()
	phase := phaseText("restore", r, string(r.Status.Phase))
	if r.DeletionTimestamp != nil {
		phase += " (Deleting)"
	}
	lines := [][2]string{{"Phase", phase}}
	lines = append(lines, attempts(r)...)
	if r.Status.FailureReason != "" {
		lines = append(lines, [2]string{"Failure reason", r.Status.FailureReason})
	}
	d.Pairs(append(lines, [2]string{"Errors", strconv.Itoa(r.Status.Errors)},
		[2]string{"Warnings", strconv.Itoa(r.Status.Warnings)})...)
	printWaits(d, r)
	printValidationErrors(d, r, r.Status.ValidationErrors)
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
		if doc.Pace != "" {
			d.Pairs([2]string{"Pace", doc.Pace})
		}
	}
	PrintOrder(d, doc.Order, doc.Details || !doc.AtWork)
	d.Gap()
	printRestoreSpec(d, &r.Spec)
	doc.printVolumes(d)
	printOperations(d, RestoreRun(r), doc.Operations)
	printHookStatus(d, r.Status.HookStatus)
	if doc.Resources != nil {
		d.Gap()
		printResources(d, doc.Resources)
	}
	printProblems(d, doc.Problems)
	return d.Err()
}

func printRestoreUploader(d *layout.Description, u *velerov1.UploaderConfigForRestore) {
	if u == nil {
		return
	}
	d.Gap()
	d.Section("Uploader config", func() {
		if u.WriteSparseFiles != nil && *u.WriteSparseFiles {
			d.Pairs([2]string{"Write Sparse Files", "true"})
		}
		if u.ParallelFilesDownload > 0 {
			d.Pairs([2]string{"Parallel Restore", strconv.Itoa(u.ParallelFilesDownload)})
		}
	})
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
		d.Pairs([2]string{"Included", layout.ListOr(spec.IncludedResources, "*")},
			[2]string{"Excluded", layout.ListOr(spec.ExcludedResources, "<none>")},
			[2]string{"Cluster-scoped", inOrExcluded(spec.IncludeClusterResources)})
	})
	d.Gap()
	d.Pairs(append(selectorLines(spec.LabelSelector, spec.OrLabelSelectors),
		[2]string{"Restore PVs", layout.BoolOrAuto(spec.RestorePVs)},
		[2]string{"Existing Resource Policy", cmp.Or(string(spec.ExistingResourcePolicy), "<none>")},
		[2]string{"ItemOperationTimeout", spec.ItemOperationTimeout.Duration.String()},
		[2]string{"Preserve Service NodePorts", layout.BoolOrAuto(spec.PreserveNodePorts)},
	)...)
	if s := spec.RestoreStatus; s != nil {
		d.Gap()
		d.Section("Restore status", func() {
			d.Pairs([2]string{"Included", layout.ListOr(s.IncludedResources, "*")},
				[2]string{"Excluded", layout.ListOr(s.ExcludedResources, "<none>")})
		})
	}
	printReference(d, "Resource modifier", spec.ResourceModifier)
	printPolicies(d, spec.ResourcePolicy, "")
	printRestoreUploader(d, spec.UploaderConfig)
	printRestoreHooks(d, spec.Hooks.Resources)
}
