package bug

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// patience is how long to wait for the server and for the cluster, which may be what does not work.
const patience = 5 * time.Second

const report = `**What did you do, and what happened?**

**What did you expect?**

**The file that "cleat debug" writes, with --backup NAME or --restore NAME if it is about one:**

**Anything else:**

**Environment:**
- cleat: %s
- server: %s
- Kubernetes: %s
- this machine: %s/%s
- where the cluster runs:
`

// NewCommand returns the command "bug". Velero's command opens such a text in a browser.
func NewCommand(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use:   "bug",
		Short: "Print a report to complete, about something that does not work",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, cluster := versions(cmd.Context(), a)
			_, err := fmt.Fprintf(a.Out, report, a.Version, server, cluster, runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// versions returns the versions of the server and of the cluster, or why they are unknown.
func versions(ctx context.Context, a *command.App) (server, kubernetes string) {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return "not known: " + err.Error(), "not known"
	}
	if answer, err := cluster.ServerStatus(ctx, patience, nil); err != nil {
		server = "not known: " + err.Error()
	} else {
		server = cmp.Or(layout.OneLine(answer.Status.ServerVersion), "not known")
	}
	config, err := a.Cluster.RestConfig()
	if err != nil {
		return server, "not known"
	}
	config.Timeout = patience
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return server, "not known: " + err.Error()
	}
	version, err := client.ServerVersion()
	if err != nil {
		return server, "not known: " + err.Error()
	}
	return server, version.GitVersion
}
