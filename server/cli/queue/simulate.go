package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// simulateFlags are the flags of "queue simulate".
type simulateFlags struct {
	directory  plugindir.Flags
	file       string // of the backups
	policy     string
	limit      int
	namespaces []string
	output     string
	leftOut    []string // problems of backups that are not simulated
}

func (f *simulateFlags) run(cmd *cobra.Command, a *command.App) error {
	if !slices.Contains([]string{"table", "json", "yaml"}, f.output) {
		return a.Print(f.output, []string{"table"}, nil, nil)
	}
	backups, err := f.backups(cmd)
	if err != nil {
		return err
	}
	for _, problem := range f.leftOut {
		fmt.Fprintln(a.Err, "Left out:", problem)
	}
	if err := f.complete(cmd); err != nil {
		return err
	}
	var lock *pluginlock.Lock
	if f.directory.Path != "" {
		if lock, err = f.directory.ReadLock(); err != nil {
			return err
		}
	}
	source, err := f.directory.Open(cmd.Context(), a, lock)
	if err != nil {
		return err
	}
	defer source.Host.Close()
	inForce, name, err := f.admission(cmd.Context(), a, source.Host)
	if err != nil {
		return err
	}
	document := status.Simulation{
		APIVersion: status.APIVersion, Kind: "QueueSimulation", Policy: name,
		Limit: cmp.Or(f.limit, f.directory.Options.ConcurrentBackups, 1), Namespaces: f.namespaces, LeftOut: f.leftOut,
		Rounds: []status.Round{},
	}
	s := &simulation{
		backups: backups, namespaces: f.namespaces, limit: document.Limit, now: time.Now(),
		decide: decideBy(inForce),
	}
	return play(cmd.Context(), a, &document, s, f.output)
}

// backups reads the backups of the file. It sets the namespaces of the cluster, and the backups that were left out.
func (f *simulateFlags) backups(cmd *cobra.Command) ([]*velerov1.Backup, error) {
	for _, name := range f.namespaces {
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			return nil, fmt.Errorf("--namespaces: %q: %s", name, wrong[0])
		}
	}
	if f.limit < 0 {
		return nil, fmt.Errorf("--concurrent-backups is %d, want at least 1", f.limit)
	}
	backups, problems, err := readBackups(f.file, cmd.InOrStdin(), time.Now())
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		f.leftOut = append(f.leftOut, problem.Error())
	}
	if !cmd.Flags().Changed("namespaces") {
		f.namespaces = namedBy(backups)
	}
	return backups, nil
}

// complete completes the flags that name the plugins.
func (f *simulateFlags) complete(cmd *cobra.Command) error {
	if err := f.directory.Complete(cmd); err != nil {
		return err
	}
	// The directory of the configuration file is one on the server, which need not exist here.
	if _, err := os.Stat(f.directory.Path); errors.Is(err, fs.ErrNotExist) && !cmd.Flags().Changed("plugin-dir") {
		f.directory.Path = ""
	}
	return nil
}

// admission returns the policies, whose admission is asked, and its name. It checks the configuration of the policy as a
// server does when it starts.
func (f *simulateFlags) admission(
	ctx context.Context, a *command.App, host *pluginhost.Host,
) (*policy.Policies, string, error) {
	file := *f.directory.File
	file.Backups.ManifestWriters, file.NodeAgent = nil, config.NodeAgent{} // not used here
	if f.policy != "" && f.policy != file.Backups.Admission.Plugin {
		file.Backups.Admission = config.Policy{Plugin: f.policy}
	}
	name := cmp.Or(file.Backups.Admission.Plugin, config.DefaultAdmission)
	if _, err := host.Find(kinds.QueueAdmission().Name, name); err != nil {
		return nil, "", fmt.Errorf("find the policy (if it is in a plugin directory, use --plugin-dir): %w", err)
	}
	if f.directory.Config != "" {
		warnings, err := file.Check(func(kind, name string) ([]byte, error) {
			entry, err := host.Find(kind, name)
			return entry.ConfigSchema, err
		})
		if err == nil {
			var more []string
			more, err = file.Validate(ctx, app.ValidateWith(host))
			warnings = append(warnings, more...)
		}
		for _, warning := range warnings {
			fmt.Fprintln(a.Err, "Warning:", warning)
		}
		if err != nil {
			return nil, "", err
		}
	}
	inForce, err := policy.New(&file, policy.Deps{Host: host, Log: hclog.NewNullLogger(), Now: time.Now})
	return inForce, name, err
}

func newSimulateCommand(a *command.App) *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -f FILE",
		Short: "Show in which order backups would run, and which would wait, without a cluster",
		Long: "Show in which order the backups of a file would run, and which would wait for others, without a cluster. " +
			"The policy\n" +
			"is the one that a server would ask: a built-in one, or one in --plugin-dir. In each round it admits backups; " +
			"then the\n" +
			"backup that has run longest ends. Backups that have ended already are left out; so are those that a server could " +
			"not read,\n" +
			"which the command names.",
		Example: "  kubectl get backups -n velero -o yaml | cleat queue simulate -f - --concurrent-backups 3\n" +
			"  cleat queue simulate -f backups.yaml --policy cleat.dev/priority --namespaces shop,billing",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, a) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", `file with Backups, YAML or JSON, "-" for stdin`)
	flags.IntVar(&f.limit, "concurrent-backups", 0, "backups that run at once; 0 for the setting in --config, or 1")
	flags.StringVar(&f.policy, "policy", "", "policy to ask; empty for the one in --config, or "+config.DefaultAdmission)
	flags.StringSliceVar(&f.namespaces, "namespaces", nil,
		"namespaces of the cluster, for patterns; the default is those that the backups name")
	f.directory.Add(cmd, "directory of the plugin binaries; empty for the built-in policies alone")
	command.AddOutput(cmd, &f.output, "table")
	_ = cmd.MarkFlagRequired("filename") // the flag exists
	return cmd
}

// play simulates and adds the rounds to d. It prints text as the rounds pass, and other forms at the end.
func play(ctx context.Context, a *command.App, d *status.Simulation, s *simulation, output string) error {
	text := layout.NewDescription(a.Out)
	if output == "table" {
		text.Line("policy %s, %s at once", d.Policy, layout.Count(d.Limit, "backup"))
	}
	stuck, err := s.rounds(ctx, func(r status.Round) error {
		d.Rounds = append(d.Rounds, r)
		d.Order = append(d.Order, r.Starts...)
		if output == "table" {
			r.Print(text)
		}
		return text.Err()
	})
	if err != nil {
		return err
	}
	d.Stuck = stuck
	err = a.Print(output, []string{"table"}, d, func() error {
		text.Gap()
		if len(stuck) == 0 {
			text.Line("All backups ended after %s. They started in this order: %s", layout.Count(len(d.Rounds), "round"),
				layout.OrNone(strings.Join(d.Order, ", ")))
		}
		return text.Err()
	})
	if err == nil && len(stuck) > 0 {
		err = fmt.Errorf("policy %s never admits %s, although no other backup runs", d.Policy,
			layout.Abbreviate(stuck, 5, ", "))
	}
	return err
}
