package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// verifyPatience is how long the command waits for a server that has begun with none of the backups.
const verifyPatience = time.Minute

func newVerifyCommand(a *command.App) *cobra.Command {
	var which command.Selection
	var quick, await bool
	var depth, output string
	cmd := &cobra.Command{
		Use:   "verify [NAME...]",
		Short: "Verify backups: name each file, item or volume that is missing, changed or added",
		Long: "Verify backups. The server reads all files of a backup, compares them with the checksums that are stored " +
			"beside it and with\n" +
			"what the cluster knows of them, and verifies the signature. The command follows the server; if it is " +
			"interrupted, the server goes on.\n" +
			"It fails if a backup is damaged, or could not be verified. A backup of Velero has no checksums: the server " +
			"makes sure that it can\n" +
			"be read.",
		Example: `  cleat backup verify nightly-20260301020000
  cleat backup verify --all --quick
  cleat backup verify nightly-20260301020000 --depth volumes -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckForm(output, "table"); err != nil {
				return err
			}
			switch {
			case quick && cmd.Flags().Changed("depth"):
				return errors.New("--quick and --depth are given, want one of them")
			case quick:
				depth = string(velerov1.VerifyQuick)
			case !slices.Contains(depths(), depth):
				return fmt.Errorf("--depth %q: want one of %s", depth, strings.Join(depths(), ", "))
			}
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			backups, err := getter().Select(cmd.Context(), cluster, "backups", which, args)
			if err != nil {
				return err
			}
			named := len(args) > 0
			backups = slices.DeleteFunc(backups, func(b velerov1.Backup) bool { return !named && !canBeVerified(&b) })
			if len(backups) == 0 {
				fmt.Fprintln(a.Err, "No backups found that have ended.")
				return nil
			}
			v := verification{app: a, cluster: cluster, depth: velerov1.VerificationDepth(depth)}
			if err := v.request(cmd.Context(), backups); err != nil {
				return err
			}
			if !await {
				fmt.Fprintf(a.Out, "Requested the verification of %s.\n", layout.Count(len(backups), "backup"))
				return nil
			}
			return v.await(cmd.Context(), output)
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	which.Add(cmd.Flags(), "verify", "backups that have ended")
	cmd.Flags().BoolVar(&quick, "quick", false, "look at what the object store lists only: --depth quick")
	cmd.Flags().StringVar(&depth, "depth", string(velerov1.VerifyFiles),
		"how much to look at: quick what the object store lists, files all files, volumes also that the repositories of "+
			"volumes are whole, data all their data")
	cmd.Flags().BoolVar(&await, "wait", true, "wait for the result; =false returns at once")
	command.AddOutput(cmd, &output, "table")
	return cmd
}

func depths() (names []string) {
	for _, depth := range velerov1.VerificationDepths() {
		names = append(names, string(depth))
	}
	return names
}

// canBeVerified reports whether a backup has ended, and can be restored.
func canBeVerified(b *velerov1.Backup) bool {
	return b.DeletionTimestamp == nil && !velerov1.IsDryRun(b) && b.Status.Phase.Restorable()
}

// verification follows the server.
type verification struct {
	app     *command.App
	cluster *command.Cluster
	depth   velerov1.VerificationDepth
	asked   []asked
}

// asked is a backup whose verification was requested.
type asked struct {
	backup *velerov1.Backup
	id     string
}

// request asks the server for the verification of backups.
func (v *verification) request(ctx context.Context, backups []velerov1.Backup) error {
	for i := range backups {
		b := &backups[i]
		if !canBeVerified(b) {
			return fmt.Errorf("backup %s is in phase %s, want Completed or PartiallyFailed", b.Name,
				status.PhaseOrNew(string(b.Status.Phase)))
		}
		request := velerov1.VerifyRequest{ID: uuid.NewString(), Depth: v.depth}
		text, err := json.Marshal(request)
		if err != nil {
			return err
		}
		before := b.DeepCopy()
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.VerifyAnnotation, string(text))
		if err := v.cluster.Patch(ctx, b, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("write annotation %s of backup %s: %w", velerov1.VerifyAnnotation, b.Name, err)
		}
		v.asked = append(v.asked, asked{b, request.ID})
	}
	return nil
}

// await waits for all results and prints them.
func (v *verification) await(ctx context.Context, output string) error {
	var reports []status.VerificationReport
	begun := false
	started := time.Now()
	for _, one := range v.asked {
		report, err := v.awaitOne(ctx, one, &begun, started)
		if ctx.Err() != nil {
			fmt.Fprintln(v.app.Err, `The server goes on. "cleat backup get" shows the result.`)
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		reports = append(reports, *report)
	}
	bad := 0
	for _, r := range reports {
		if r.Outcome != velerov1.VerifiedIntact {
			bad++
		}
	}
	err := v.app.Print(output, []string{"table"}, reports, func() error { return printReports(v.app.Out, reports) })
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d of %s not intact", bad, layout.Count(len(reports), "backup")+" "+
			map[bool]string{true: "is", false: "are"}[bad == 1])
	}
	return err
}

// awaitOne waits for one result.
func (v *verification) awaitOne(
	ctx context.Context, one asked, begun *bool, started time.Time,
) (*status.VerificationReport, error) {
	b := one.backup
	progress := command.NewProgress(v.app.Err, b.Name)
	var report *status.VerificationReport
	err := runs.Poll(ctx, v.cluster, b, progress, func() (bool, error) {
		if b.Status.Phase == velerov1.BackupPhaseDeleting {
			return false, runs.ErrDeleted
		}
		known, err := velerov1.VerificationOf(b)
		if err == nil && known != nil {
			if last := known.Last; last != nil && last.Request == one.id {
				report = &status.VerificationReport{Backup: b.Name, VerificationResult: *last}
				return true, nil
			}
			if r := known.Running; r != nil && r.Request == one.id {
				*begun = true
				progress.State(command.State{Phase: "Verifying", Detail: r.At, What: "KiB", Done: int(r.DoneBytes >> 10),
					Total: int(r.TotalBytes >> 10)})
			}
		}
		request, err := velerov1.VerifyRequestOf(b)
		if err != nil || request == nil || request.ID != one.id {
			return false, fmt.Errorf("another request has replaced that for the verification of backup %s", b.Name)
		}
		if !*begun && time.Since(started) > verifyPatience {
			return false, fmt.Errorf("no server has begun to verify backup %s for %s: is one running, and as new as this "+
				"program? It begins when it runs", b.Name, verifyPatience)
		}
		return false, nil
	})
	if errors.Is(err, runs.ErrDeleted) {
		err = fmt.Errorf("backup %s was deleted before it was verified", b.Name)
	}
	return report, err
}

// printReports prints the table, and below it what was found.
func printReports(w io.Writer, reports []status.VerificationReport) error {
	table := status.VerificationTable(reports)
	if err := table.Print(w); err != nil {
		return err
	}
	for i := range reports {
		r := &reports[i]
		if r.Message == "" && len(r.Findings) == 0 && len(r.Notes) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", r.Backup)
		if r.Message != "" {
			fmt.Fprintf(w, "  could not be verified: %s\n", layout.OneLine(r.Message))
		}
		for _, f := range r.Findings {
			fmt.Fprintf(w, "  %s: %s: %s\n", f.Kind, layout.OneLine(f.Of), layout.OneLine(f.Message))
		}
		if r.Others > 0 {
			fmt.Fprintf(w, "  and %s\n", layout.Count(r.Others, "more finding"))
		}
		for _, note := range r.Notes {
			fmt.Fprintf(w, "  note: %s\n", layout.OneLine(note))
		}
	}
	return nil
}
