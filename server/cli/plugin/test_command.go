package plugin

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// pluginTest holds the flags of "plugin test".
type pluginTest struct {
	output        string
	rules         bool
	only          []string
	config        []string
	items         []string
	snapshots     []string
	environment   []string
	volume, zone  string
	kubeconfig    string
	timeout       time.Duration
	operationWait time.Duration
}

// options returns the options of the flags.
func (f *pluginTest) options() ([]conformance.Option, error) {
	options := []conformance.Option{
		conformance.WithTimeout(f.timeout), conformance.WithOperationWait(f.operationWait),
		conformance.WithOnly(f.only...), conformance.WithVolume(f.volume, f.zone), conformance.WithEnvironment(
			f.environment...,
		),
	}
	if f.kubeconfig != "" {
		options = append(options, conformance.WithKubeconfig(f.kubeconfig))
	}
	for _, variable := range f.environment {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
			return nil, fmt.Errorf("--env %q must be NAME=VALUE", variable)
		}
	}
	for _, text := range f.config {
		option, err := conformance.ParseConfig(text)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		options = append(options, option)
	}
	for _, path := range f.items {
		item, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--item: %w", err)
		}
		options = append(options, conformance.WithItem(item))
	}
	for _, path := range f.snapshots {
		snapshot, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--snapshot: %w", err)
		}
		options = append(options, conformance.WithSnapshot(snapshot))
	}
	return options, nil
}

// writer returns the function that writes a report in the form of --output.
func (f *pluginTest) writer() (func(*conformance.Report, io.Writer) error, error) {
	switch f.output {
	case "table":
		return printTestReport, nil
	case "json":
		return func(report *conformance.Report, w io.Writer) error { return layout.PrintJSON(w, report) }, nil
	case "junit":
		return (*conformance.Report).WriteJUnit, nil
	}
	return nil, fmt.Errorf("--output %q: want table, json or junit", f.output)
}

func newTestCommand(a *command.App) *cobra.Command {
	var f pluginTest
	cmd := &cobra.Command{
		Use:   "test BINARY [-- ARGUMENT...]",
		Short: "Test a plugin against the contracts of its kinds",
		Long: "Run a plugin, and check what it announces, answers and leaves behind against the contracts of its kinds.\n" +
			"The exit status is 1 when a rule is broken that must be kept, or when the test was interrupted: it prints then " +
			"what it has.\n" +
			"What could not be checked is listed with the reason.\n\n" +
			"The plugin is started as the server starts it: with the server's flags, in this working directory, and with the\n" +
			"environment of this command. --env adds variables, as plugins.variables does in a server.\n\n" +
			"The plugin is run for real: actions are asked about items that do not exist, and an ObjectStore, when --config\n" +
			"names its bucket, is filled and emptied below plugins/conformance/. The bucket must be empty.",
		Example: "  cleat plugin test ./my-plugin\n" +
			"  cleat plugin test ./my-plugin -o junit > report.xml\n" +
			"  cleat plugin test ./my-store --config bucket=test --config path=/tmp/stores\n" +
			"  cleat plugin test ./my-plugin --item widget.yaml\n" +
			"  cleat plugin test ./my-admission --config quota=3 --snapshot backups.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.rules {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.rules {
				return printRules(a, f.output)
			}
			write, err := f.writer()
			if err != nil {
				return err
			}
			options, err := f.options()
			if err != nil {
				return err
			}
			if err := plugindir.CheckExecutable(args[0]); err != nil {
				return err
			}
			progress := newTestProgress(a.Err, args[0], testProgressEvery)
			report, err := conformance.Run(cmd.Context(), conformance.Binary(args[0], args[1:]...),
				append(options, conformance.WithProgress(progress.tell))...)
			progress.end()
			if report == nil {
				return err
			}
			if err := write(report, a.Out); err != nil {
				return err
			}
			if err != nil {
				return fmt.Errorf("the test was interrupted before all rules were checked: %w", err)
			}
			if !report.Conformant() {
				return command.ErrQuiet
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "table", "form of the output: table, json or junit")
	flags.BoolVar(&f.rules, "rules", false, "list the rules, and test nothing")
	flags.StringArrayVar(&f.only, "plugin", nil, "test this plugin of the binary only (may be given several times)")
	flags.StringArrayVar(&f.config, "config", nil,
		"KEY=VALUE of the plugin's configuration; PLUGIN:KEY=VALUE or KIND/PLUGIN:KEY=VALUE for one of them (may be given "+
			"several times)")
	flags.StringArrayVar(&f.items, "item", nil, "file with the YAML or JSON of an object to ask actions about, beside "+
		"those that are built in (may be given several times)")
	flags.StringArrayVar(&f.snapshots, "snapshot", nil,
		"file with a queue to ask a QueueAdmission about, beside those that are built in: Backups as kubectl prints them, "+
			"or the YAML of a DecideRequest (may be given several times)")
	flags.StringArrayVar(&f.environment, "env", nil,
		"NAME=VALUE to add to the environment of the plugin (may be given several times)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig file for plugins that need a cluster to say what they apply to")
	flags.StringVar(&f.volume, "volume", "", "id of a volume that a VolumeSnapshotter may take a snapshot of")
	flags.StringVar(&f.zone, "volume-zone", "", "availability zone of --volume")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "how long a start, a call, or a message of a stream may take")
	flags.DurationVar(&f.operationWait, "operation-wait", 10*time.Second,
		"how long to wait for the end of an operation that the plugin starts")
	return cmd
}

// printTestReport prints a report for users: a line for each plugin, then the broken rules, and the rules that were not
// tested.
func printTestReport(report *conformance.Report, w io.Writer) error {
	t := layout.Table{Head: []string{"KIND", "NAME", "PASSED", "FAILED", "WARNINGS", "SKIPPED"}}
	for _, plugin := range report.Plugins {
		one := conformance.Report{Plugins: []conformance.PluginReport{plugin}}
		t.Rows = append(t.Rows, []string{
			plugin.Kind, layout.OrNone(plugin.Name), strconv.Itoa(one.Count(conformance.Passed)),
			strconv.Itoa(one.Count(conformance.Failed)),
			strconv.Itoa(one.Count(conformance.Warned)), strconv.Itoa(one.Count(conformance.Skipped)),
		})
	}
	if err := t.Print(w); err != nil {
		return err
	}
	for _, outcome := range []conformance.Outcome{conformance.Failed, conformance.Warned} {
		for _, plugin := range report.Plugins {
			for _, result := range plugin.Results {
				if result.Outcome == outcome {
					fmt.Fprintf(w, "\n%s: %s: %s\n  %s\n  Seen: %s\n", outcome, plugin, result.Rule, result.Text,
						strings.ReplaceAll(result.Seen, "\n", "\n    "))
				}
			}
		}
	}
	printSkipped(report, w)
	_, err := fmt.Fprintf(w, "\n%s: %s\n", report.Target, report.Summary())
	return err
}

// printSkipped lists the rules that were not checked, by plugin and reason.
func printSkipped(report *conformance.Report, w io.Writer) {
	for _, plugin := range report.Plugins {
		rules := map[string][]string{}
		var reasons []string
		for _, result := range plugin.Results {
			if result.Outcome != conformance.Skipped {
				continue
			}
			if rules[result.Seen] == nil {
				reasons = append(reasons, result.Seen)
			}
			rules[result.Seen] = append(rules[result.Seen], result.Rule)
		}
		for _, reason := range reasons {
			fmt.Fprintf(w, "\nskipped: %s: %s\n  %s\n", plugin, strings.Join(rules[reason], ", "), reason)
		}
	}
}

func printRules(a *command.App, output string) error {
	rules := conformance.Rules()
	switch output {
	case "table":
		t := layout.Table{Head: []string{"RULE", "SEVERITY", "KINDS", "TEXT"}}
		for _, rule := range rules {
			t.Rows = append(t.Rows, []string{rule.ID, string(rule.Severity), strings.Join(rule.Kinds, ","), rule.Text})
		}
		return t.Print(a.Out)
	case "json":
		return layout.PrintJSON(a.Out, rules)
	}
	return fmt.Errorf("--output %q of --rules: want table or json", output)
}

// testProgress shows how far a test is: on a terminal by a bar, elsewhere by a line from time to time, also while a
// single rule takes long.
type testProgress struct {
	bar    *command.Bar
	w      io.Writer
	target string
	stop   chan struct{}
	ended  sync.WaitGroup

	mu  sync.Mutex
	now conformance.Progress
}

// testProgressEvery is the time between two lines. Most tests are over before the first one.
const testProgressEvery = 20 * time.Second

func newTestProgress(w io.Writer, target string, every time.Duration) *testProgress {
	bar, _ := command.NewProgress(w, target).(*command.Bar)
	p := &testProgress{bar: bar, w: w, target: target, stop: make(chan struct{})}
	if bar == nil {
		p.ended.Go(func() { p.print(every) })
	}
	return p
}

func (p *testProgress) tell(now conformance.Progress) {
	if p.bar != nil {
		p.bar.State(command.State{Phase: phaseOf(now), Done: now.Done, Total: now.Total})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
}

// print prints lines until the test has ended.
func (p *testProgress) print(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.mu.Lock()
			fmt.Fprintf(p.w, "%s: %d of %d rules checked, now: %s\n", p.target, p.now.Done, p.now.Total, phaseOf(p.now))
			p.mu.Unlock()
		case <-p.stop:
			return
		}
	}
}

func phaseOf(now conformance.Progress) string {
	return strings.Join(strings.Fields(now.Kind+" "+now.Name+" "+now.Rule), " ")
}

func (p *testProgress) end() {
	close(p.stop)
	p.ended.Wait()
	if p.bar != nil {
		p.bar.End()
	}
}
