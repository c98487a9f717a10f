package location

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
)

// origin are the flags that only "create" has.
type origin struct {
	provider string
	labels   map[string]string
	print    command.PrintFlag
}

func (o *origin) add(flags *pflag.FlagSet, kind string) {
	flags.StringVar(&o.provider, "provider", "", "name of the plugin, such as aws")
	flags.StringToStringVar(&o.labels, "labels", nil, "labels of the "+kind)
	o.print.Add(flags, kind)
}

func newCreateCommand(a *command.App) *cobra.Command {
	var o origin
	var s settings
	var storage velerov1.ObjectStorageLocation
	cmd := &cobra.Command{
		Use:   "create NAME --provider PROVIDER --bucket BUCKET",
		Short: "Create a backup storage location",
		Example: "  cleat backup-location create offsite --provider aws --bucket backups --config region=eu-central-1 " +
			"--credential offsite=cloud",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.provider == "" || storage.Bucket == "" {
				return errors.New("say where the backups are stored: --provider and --bucket")
			}
			l := &velerov1.BackupStorageLocation{
				ObjectMeta: metav1.ObjectMeta{Name: args[0], Labels: o.labels},
				Spec: velerov1.BackupStorageLocationSpec{Provider: o.provider,
					StorageType: velerov1.StorageType{ObjectStorage: &storage}},
			}
			if err := s.apply(cmd.Flags(), &l.Spec); err != nil {
				return err
			}
			getter().SetKind(l)
			return create(cmd.Context(), a, o, "Backup storage location", l, func(cluster *command.Cluster) error {
				if !l.Spec.Default {
					return nil
				}
				return resetDefaults(cmd.Context(), cluster, l.Name)
			})
		},
	}
	o.add(cmd.Flags(), "backup storage location")
	s.add(cmd.Flags())
	cmd.Flags().StringVar(&storage.Bucket, "bucket", "", "name of the bucket")
	cmd.Flags().StringVar(&storage.Prefix, "prefix", "", "path in the bucket below which everything is stored")
	return cmd
}

func newSnapshotCreateCommand(a *command.App) *cobra.Command {
	var o origin
	var p provider
	cmd := &cobra.Command{
		Use:     "create NAME --provider PROVIDER",
		Short:   "Create a volume snapshot location",
		Example: "  cleat snapshot-location create default --provider aws --config region=eu-central-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.provider == "" {
				return errors.New("say which plugin takes the snapshots: --provider")
			}
			l := &velerov1.VolumeSnapshotLocation{
				ObjectMeta: metav1.ObjectMeta{Name: args[0], Labels: o.labels}, Spec: velerov1.VolumeSnapshotLocationSpec{
					Provider: o.provider,
				},
			}
			p.apply(cmd.Flags(), &l.Spec.Config, &l.Spec.Credential)
			snapshotGetter().SetKind(l)
			return create(cmd.Context(), a, o, "Snapshot volume location", l, func(*command.Cluster) error { return nil })
		},
	}
	o.add(cmd.Flags(), "volume snapshot location")
	p.add(cmd.Flags())
	return cmd
}

// create creates or prints a location. before is called before it is created.
func create(
	ctx context.Context, a *command.App, o origin, kind string, l client.Object, before func(*command.Cluster) error,
) error {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	l.SetNamespace(cluster.Namespace)
	if printed, err := o.print.Print(a.Out, l); printed {
		return err
	}
	if err := before(cluster); err != nil {
		return err
	}
	err = cluster.Create(ctx, l)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a location named %s exists; choose another name, or change that one with \"set\"", l.GetName())
	}
	if err != nil {
		return fmt.Errorf("create location %s: %w", l.GetName(), err)
	}
	fmt.Fprintf(a.Out, "%s %q configured successfully.\n", kind, l.GetName())
	return nil
}

// resetDefaults makes all locations but one lose that they are the default.
func resetDefaults(ctx context.Context, cluster *command.Cluster, name string) error {
	list, err := getter().List(ctx, cluster, "", nil)
	if err != nil {
		return err
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == name || !other.Spec.Default {
			continue
		}
		before := other.DeepCopy()
		other.Spec.Default = false
		if err := cluster.Patch(ctx, other, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("reset the default location %s: %w", other.Name, err)
		}
	}
	return nil
}
