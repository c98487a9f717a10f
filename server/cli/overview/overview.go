package overview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugin"
	"github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
)

// NewCommand returns the command "overview".
func NewCommand(a *command.App) *cobra.Command {
	var d runs.Downloads
	var since time.Duration
	var output string
	cmd := &cobra.Command{
		Use:   "overview",
		Short: "Show what is protected and what is in trouble",
		Long: "Show the namespaces, and the volumes of bound claims, that no Completed backup of the last time has, " +
			"schedules with their\n" +
			"last good backups, locations, and the policies and plugins that do not work. Which volumes a backup has is read " +
			"from its\n" +
			"file about them, of the last backups of each namespace.",
		Example: "  cleat overview\n  cleat overview --since 48h -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 {
				return fmt.Errorf("--since %s: want more than 0", since)
			}
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			now := time.Now()
			document, err := compose(cmd.Context(), cluster, &d, since, now)
			if err != nil {
				return err
			}
			return a.Print(output, []string{"text"}, document, func() error { return document.Print(a.Out, now) })
		},
	}
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "age up to which a backup protects")
	command.AddOutput(cmd, &output, "text")
	d.Add(cmd.Flags(), 10*time.Second)
	return cmd
}

// compose returns the overview. Problems list what could not be found out.
func compose(
	ctx context.Context, cluster *command.Cluster, d *runs.Downloads, since time.Duration, now time.Time,
) (*status.Overview, error) {
	of := status.OverviewOf{Namespace: cluster.Namespace, Since: since}
	var backups velerov1.BackupList
	if err := cluster.List(ctx, &backups, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	of.Backups = pointers(backups.Items)
	var namespaces corev1.NamespaceList
	var claims corev1.PersistentVolumeClaimList
	var schedules velerov1.ScheduleList
	var locations velerov1.BackupStorageLocationList
	noNamespaces := cluster.List(ctx, &namespaces)
	noClaims := cluster.List(ctx, &claims)
	err := errors.Join(noNamespaces, noClaims, cluster.List(ctx, &schedules, client.InNamespace(cluster.Namespace)),
		cluster.List(ctx, &locations, client.InNamespace(cluster.Namespace)))
	for i := range namespaces.Items {
		of.Namespaces = append(of.Namespaces, namespaces.Items[i].Name)
	}
	for i := range claims.Items {
		of.AddClaim(&claims.Items[i])
	}
	of.Schedules, of.Locations = pointers(schedules.Items), pointers(locations.Items)
	doc := status.NewOverview(of, now)
	if of.MovesData(now) {
		var agents corev1.PodList
		listed := cluster.List(ctx, &agents, client.InNamespace(cluster.Namespace),
			client.MatchingLabels{nodeagents.RoleLabel: nodeagents.Role})
		if err = errors.Join(err, listed); listed == nil {
			doc.AddAgents(agents.Items)
		}
	}
	if err != nil {
		doc.Problems = append(doc.Problems, err.Error())
	}
	if noClaims == nil {
		asked, more := status.BackupsToAsk(of, now)
		doc.Volumes = status.NewVolumeOverview(of, asked, more, d.BackupVolumes(ctx, cluster, asked))
	}
	request, err := cluster.ServerStatus(ctx, d.Timeout(), nil)
	if err != nil {
		doc.Problems = append(doc.Problems, "the server was asked about its policies and plugins: "+err.Error())
		return doc, nil
	}
	policies, noPolicies := queue.PoliciesOf(request)
	plugins, noPlugins := plugin.ReportOf(request)
	if err := errors.Join(noPolicies, noPlugins); err != nil {
		doc.Problems = append(doc.Problems, err.Error())
	}
	if policies != nil {
		doc.AddServer(policies.Policies, plugins)
		doc.AddKeys(policies.Keys)
	} else {
		doc.AddServer(nil, plugins)
	}
	return doc, nil
}

// pointers returns the addresses of objects.
func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
