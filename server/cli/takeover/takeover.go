package takeover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
	"github.com/cleat-dev/cleat/server/internal/setup/takeover"
)

// NewCommand returns the command "takeover".
func NewCommand(a *command.App, server, agent func() Program) *cobra.Command {
	c := takeovers{app: a, server: server, agent: agent}
	cmd := &cobra.Command{
		Use:   "takeover",
		Short: "Replace a running Velero by cleat, and put it back",
		Long: "Replace the running Velero of a namespace by cleat, and put it back. Velero's Deployment stays, without " +
			"pods; a copy of it, named\n" +
			takeover.Name + ", runs cleat with the same plugins, volumes, rights and flags. The DaemonSet of Velero's node " +
			"agents stays, without pods, too;\nthe DaemonSet " + takeover.AgentsName + " runs cleat's in their place. Custom " +
			"resources, buckets and the data of volumes stay as they are.",
	}
	cmd.AddCommand(newCheck(c), newStart(c), newBack(c))
	return cmd
}

// takeovers is shared by the commands.
type takeovers struct {
	app           *command.App
	server, agent func() Program
	image         string
	registry      command.Registry
	movers        []string
	privileged    bool
	timeout       time.Duration
	loadTimeout   time.Duration
	readyTimeout  time.Duration
	force         bool
	wait          bool
}

func (c *takeovers) connect(ctx context.Context) (*takeover.Takeover, *command.Cluster, error) {
	kopia, restic := install.ImageOf(install.KopiaMoverImage, c.app.Version), install.ImageOf(install.ResticMoverImage,
		c.app.Version)
	images := []*string{&c.image}
	for i := range c.movers {
		images = append(images, &c.movers[i])
	}
	if len(c.movers) == 0 {
		images = append(images, &kopia, &restic)
	}
	if err := c.registry.Pin(ctx, c.app, images...); err != nil {
		return nil, nil, err
	}
	cluster, err := c.app.Cluster.Connect()
	if err != nil {
		return nil, nil, err
	}
	if !c.wait {
		c.readyTimeout = 0
	}
	return &takeover.Takeover{
		Client: cluster, Namespace: cluster.Namespace, Image: c.image, Lease: app.LeaseName, Arguments: arguments(c.server),
		AgentArguments: arguments(c.agent), LoadTimeout: c.loadTimeout, Movers: c.movers, Privileged: c.privileged,
		MoverOf: map[velerov1.RepositoryType]string{
			velerov1.RepositoryTypeKopia: kopia, velerov1.RepositoryTypeRestic: restic,
		},
		Report:       func(name, action string) { fmt.Fprintf(c.app.Out, "%s %s\n", name, action) },
		CheckVolumes: app.CheckVolumes, ReadyTimeout: c.readyTimeout,
		Waiting: func(what, why string) { fmt.Fprintf(c.app.Err, "Waiting for %s: %s.\n", what, why) },
	}, cluster, nil
}

func newCheck(c takeovers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List what a take-over would miss, and change nothing",
		Long: "List what is in use in the namespace and cleat does not serve, and what happens in a take-over. The command " +
			"changes nothing but asks\n" +
			"the server for its version and plugins. It fails if something would be missed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, cluster, err := c.connect(cmd.Context())
			if err != nil {
				return err
			}
			return c.check(cmd.Context(), t, cluster)
		},
	}
	c.addTimeout(cmd)
	return cmd
}

func newStart(c takeovers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Stop Velero and run cleat in its place",
		Long: "Check as \"takeover check\" does, start cleat beside Velero, where it stands by, and wait until it is " +
			"ready; then let Velero's node\n" +
			"agents end what they move, stop Velero, wait until none of its pods is left, and let cleat work in its place. If " +
			"cleat is not ready\nin time, it is removed, and Velero stays as it was. The command may be run again if it was " +
			"interrupted.",
		Example: "  cleat takeover check\n  cleat takeover start\n  cleat takeover back",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.start(cmd.Context()) },
	}
	c.addTimeout(cmd)
	cmd.Flags().StringVar(&c.image, "image", install.ImageOf(install.Image, c.app.Version), "image of cleat")
	c.registry.Add(cmd.Flags(), "the images of cleat and of data movers")
	cmd.Flags().StringSliceVar(&c.movers, "node-agent-plugins", nil, "images of the data movers of the server and the "+
		"node agents; default that for kopia and, if there are repositories of restic, that for restic")
	cmd.Flags().BoolVar(&c.privileged, "privileged-node-agent", false, "run privileged node agents although Velero's are "+
		"not: for volumes that are block devices")
	cmd.Flags().DurationVar(&c.loadTimeout, "load-timeout", time.Hour, "how long Velero's node agents may go on moving "+
		"data before what they move is cancelled")
	cmd.Flags().DurationVar(&c.readyTimeout, "ready-timeout", 10*time.Minute, "how long cleat may take to be ready "+
		"before it is removed, and nothing is stopped; and how long to wait for its first answer in Velero's place")
	cmd.Flags().BoolVar(&c.force, "force", false, "take over although something would be missed")
	cmd.Flags().BoolVar(&c.wait, "wait", true, "stop Velero only when cleat is ready, and wait until it answers")
	return cmd
}

func newBack(c takeovers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "back",
		Short: "Stop cleat and run Velero again",
		Long: "Stop the cleat that \"takeover start\" has started, wait until none of its pods is left, and run Velero " +
			"again, as it was. Velero marks\n" +
			"backups and restores as Failed that are in progress when it starts, so the command refuses while there are some. " +
			"It may be run\n" +
			"again if it was interrupted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.back(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&c.force, "force", false, "go back although backups or restores in progress will be Failed")
	cmd.Flags().BoolVar(&c.wait, "wait", true, "wait until Velero is available")
	return cmd
}

func (c *takeovers) addTimeout(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.timeout, "timeout", 10*time.Second,
		"how long to wait for Velero's server to say its version and its plugins")
}

// check prints the findings. It returns an error if a take-over would miss something.
func (c *takeovers) check(ctx context.Context, t *takeover.Takeover, cluster *command.Cluster) error {
	answer, err := cluster.ServerStatus(ctx, c.timeout, nil)
	if err != nil {
		fmt.Fprintf(c.app.Err, "Velero's server was not asked: %v\n", err)
		answer = nil
	}
	findings, err := t.Check(ctx, answer)
	if err != nil {
		return err
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"Cleat would miss:", findings.Missed}, {"To know:", findings.Notes}} {
		if len(list.lines) == 0 {
			continue
		}
		fmt.Fprintln(c.app.Out, list.title)
		for _, line := range list.lines {
			fmt.Fprintf(c.app.Out, "- %s\n", layout.OneLine(line))
		}
	}
	if n := len(findings.Missed); n > 0 {
		return fmt.Errorf("a take-over of namespace %s would miss %s", cluster.Namespace, layout.Count(n, "thing"))
	}
	fmt.Fprintf(c.app.Out, "A take-over of namespace %s misses nothing.\n", cluster.Namespace)
	return nil
}

func (c *takeovers) start(ctx context.Context) error {
	t, cluster, err := c.connect(ctx)
	if err != nil {
		return err
	}
	if err := c.check(ctx, t, cluster); err != nil {
		if !c.force {
			return fmt.Errorf("%w; --force takes over nevertheless", err)
		}
		fmt.Fprintf(c.app.Err, "Going on: %v.\n", err)
	}
	if err := t.Start(ctx); err != nil {
		return err
	}
	if c.wait { // a server that stands by is available, too
		if _, err := cluster.ServerStatus(ctx, c.readyTimeout, nil); err != nil {
			return fmt.Errorf("cleat does not work yet in place of Velero, which is stopped; run the command again, or put "+
				"Velero back with \"cleat takeover back\": %w", err)
		}
	}
	return c.await(ctx, cluster, takeover.Name, "Cleat runs in place of Velero in namespace %s; \"cleat takeover back\" "+
		"puts Velero back.\n")
}

func (c *takeovers) back(ctx context.Context) error {
	t, cluster, err := c.connect(ctx)
	if err != nil {
		return err
	}
	running, err := t.InProgress(ctx)
	if err != nil {
		return err
	}
	loads, err := t.OpenLoads(ctx)
	if err != nil {
		return err
	}
	if running = append(running, loads...); len(running) > 0 && !c.force {
		return fmt.Errorf("in progress: %s; Velero marks them as Failed when it starts: wait for their end, or use --force",
			strings.Join(running, ", "))
	}
	velero, err := t.Back(ctx)
	if err != nil {
		return err
	}
	return c.await(ctx, cluster, velero, "Velero runs again in namespace %s.\n")
}

// await waits for a Deployment, unless --wait is false, and prints the result.
func (c *takeovers) await(ctx context.Context, cluster *command.Cluster, deployment, end string) error {
	if c.wait {
		err := install.AwaitServer(ctx, cluster, cluster.Namespace, deployment, func(why string) {
			fmt.Fprintf(c.app.Err, "Waiting for Deployment %s: %s.\n", deployment, why)
		})
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(c.app.Out, end, cluster.Namespace)
	return err
}
