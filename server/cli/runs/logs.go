package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

const (
	// logsTimeout is how long "logs" waits for the server to make a URL.
	logsTimeout = time.Minute
	// lastLines is how long "logs --follow" waits for the last lines of a run that has ended.
	lastLines = 2 * time.Second
)

// LogOf is a run whose log is printed.
type LogOf struct {
	*Object
	Target   velerov1.DownloadTargetKind
	Began    *metav1.Time // nil before it has
	Location string       // of its files
}

// NewLogsCommand returns the command that prints the log of a run, which get reads.
func NewLogsCommand(
	a *command.App, kind string, get func(ctx context.Context, cluster *command.Cluster, name string) (LogOf, error),
) *cobra.Command {
	var d Downloads
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of a " + kind,
		Long: "Print the log of a " + kind + ". It is stored when the " + kind + " has run, with a line for each item.\n" +
			"With --follow the lines of a " + kind + " that has not ended are printed as the server writes them. They are read " +
			"from\nthe log of its pods, which needs the rights to list pods and to get pods/log.",
		Example: "  cleat " + kind + " logs nightly --follow",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			of, err := get(cmd.Context(), cluster, args[0])
			if err != nil {
				return err
			}
			run := of.state()
			if follow && !run.Ended() {
				return followLog(cmd.Context(), a, cluster, of)
			}
			if !run.HasLog() {
				return fmt.Errorf("the log of %s %s is stored when it has run, and its phase is %s; --follow prints the lines "+
					"that the server writes", kind, run.Name, run.Phase)
			}
			err = d.copyFile(cmd.Context(), cluster, of.Target, run.Name, of.Location, a.Out)
			if errors.Is(err, ErrNoFile) {
				return fmt.Errorf("there is no log of %s %s in the object storage; its phase is %s (%s)", kind, run.Name, run.Phase,
					layout.OrNone(run.FailureReason))
			}
			return err
		},
	}
	d.Add(cmd.Flags(), logsTimeout)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print the lines that the server writes until the "+kind+" ends")
	return cmd
}

// followLog prints the lines of a run until it ends.
func followLog(ctx context.Context, a *command.App, cluster *command.Cluster, of LogOf) error {
	run := of.state()
	note := func(sentence string) {
		if sentence != "" {
			fmt.Fprintln(a.Err, layout.OneLine(sentence))
		}
	}
	f := &Follower{Cluster: cluster, Kind: run.Kind, Name: run.Name, Since: Since(of, of.Began), Problem: note,
		Line: func(line string) { fmt.Fprintln(a.Out, layout.Printable(line)) }}
	following, stop := context.WithCancel(ctx)
	defer stop()
	refused := make(chan error, 1)
	go func() { refused <- f.Run(following) }()
	ended := make(chan error, 1)
	go func() { ended <- await(following, cluster, of.Object, quiet(note)) }()
	select {
	case err := <-refused:
		return err
	case err := <-ended:
		if err != nil {
			return err
		}
	}
	select { // the last lines are on their way
	case <-time.After(lastLines):
	case <-ctx.Done():
	}
	stop()
	<-refused
	run = of.state()
	note(fmt.Sprintf("%s %s has ended: %s. \"cleat %s logs %s\" prints the stored log, with a line for each item.",
		run.Title(), run.Name, run.Phase, run.Kind, run.Name))
	return nil
}

// Since returns the time of the first lines of a run: when it began, or when its object was created.
func Since(o metav1.Object, began *metav1.Time) time.Time {
	if began != nil {
		return began.Time
	}
	return o.GetCreationTimestamp().Time
}

// quiet is a command.Progress that says what goes wrong and nothing else.
type quiet func(sentence string)

func (q quiet) State(command.State) {}

func (q quiet) Note(text string) { q(text) }

func (q quiet) End() {}

var _ command.Progress = quiet(nil)
