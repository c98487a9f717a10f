package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller"
)

func (a *App) backupCommand() *cobra.Command {
	return parent("backup", "Work with backups",
		a.backupCreateCommand(), a.backupGetCommand(), a.backupDescribeCommand(), a.backupLogsCommand(), a.backupDeleteCommand())
}

// backupFlags are the flags that say what a backup is like.
type backupFlags struct {
	spec                                   velerov1.BackupSpec
	selectors                              selectors
	labels, annotations                    map[string]string
	ordered, policies                      string
	parallelFiles                          int
	ttl, csiTimeout, itemOperationsTimeout time.Duration
	output                                 string
}

// backupCreate are the flags of "backup create".
type backupCreate struct {
	backupFlags
	fromSchedule string
	wait         bool
}

func (a *App) backupCreateCommand() *cobra.Command {
	c := new(backupCreate)
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a backup",
		Example: "  cleat backup create nightly --include-namespaces shop,billing --wait",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), a, args)
		},
	}
	c.add(cmd.Flags(), "backup")
	cmd.Flags().StringVar(&c.fromSchedule, "from-schedule", "", "take the spec from the template of a schedule")
	cmd.Flags().BoolVarP(&c.wait, "wait", "w", false, "wait until the backup has ended; fails unless it is Completed")
	return cmd
}

// add adds the flags to those of a command that creates something of the given kind.
func (c *backupFlags) add(f *pflag.FlagSet, kind string) {
	spec := &c.spec
	f.DurationVar(&c.ttl, "ttl", 0, "how long to keep the backup; 0 for the server's default")
	f.StringSliceVar(&spec.IncludedNamespaces, "include-namespaces", nil, "namespaces to back up, names or patterns; all without it")
	f.StringSliceVar(&spec.ExcludedNamespaces, "exclude-namespaces", nil, "namespaces to leave out")
	f.StringSliceVar(&spec.IncludedResources, "include-resources", nil, "resources to back up, as resource.group")
	f.StringSliceVar(&spec.ExcludedResources, "exclude-resources", nil, "resources to leave out")
	f.StringSliceVar(&spec.IncludedClusterScopedResources, "include-cluster-scoped-resources", nil, "cluster-scoped resources to back up")
	f.StringSliceVar(&spec.ExcludedClusterScopedResources, "exclude-cluster-scoped-resources", nil, "cluster-scoped resources to leave out")
	f.StringSliceVar(&spec.IncludedNamespaceScopedResources, "include-namespace-scoped-resources", nil, "namespaced resources to back up")
	f.StringSliceVar(&spec.ExcludedNamespaceScopedResources, "exclude-namespace-scoped-resources", nil, "namespaced resources to leave out")
	addOptionalBool(f, &spec.IncludeClusterResources, "include-cluster-resources", "back up cluster-scoped resources")
	f.StringToStringVar(&c.labels, "labels", nil, "labels of the "+kind)
	f.StringToStringVar(&c.annotations, "annotations", nil, "annotations of the "+kind)
	f.StringVar(&spec.StorageLocation, "storage-location", "", "where to store the backup; empty for the default location")
	f.StringSliceVar(&spec.VolumeSnapshotLocations, "volume-snapshot-locations", nil, "where to store volume snapshots")
	c.selectors.add(f)
	f.StringVar(&c.ordered, "ordered-resources", "", "what to back up first, as RESOURCE=NAMESPACE/NAME,...;RESOURCE=...")
	f.DurationVar(&c.csiTimeout, "csi-snapshot-timeout", 0, "how long to wait for a CSI snapshot")
	f.DurationVar(&c.itemOperationsTimeout, "item-operation-timeout", 0, "how long asynchronous operations of plugins may take")
	addOptionalBool(f, &spec.SnapshotVolumes, "snapshot-volumes", "take snapshots of volumes")
	addOptionalBool(f, &spec.SnapshotMoveData, "snapshot-move-data", "move the data of snapshots to the backup storage")
	f.StringVar(&spec.DataMover, "data-mover", "", "data mover to use")
	addOptionalBool(f, &spec.DefaultVolumesToFsBackup, "default-volumes-to-fs-backup", "back up all volumes of pods from the file system")
	f.StringVar(&c.policies, "resource-policies-configmap", "", "ConfigMap with resource policies")
	f.IntVar(&c.parallelFiles, "parallel-files-upload", 0, "files of a volume to upload at once")
	f.StringVarP(&c.output, "output", "o", "", "print the "+kind+" as json or yaml instead of creating it")
}

// print prints what is to be created, if it was asked for instead of the creation.
func (c *backupFlags) print(a *App, object client.Object) (printed bool, err error) {
	switch c.output {
	case "":
		return false, nil
	case "json":
		return true, printJSON(a.Out, object)
	case "yaml":
		return true, printYAML(a.Out, object)
	default:
		return true, fmt.Errorf("--output %q: want json or yaml", c.output)
	}
}

// build makes the spec from the flags.
func (c *backupFlags) build() (spec velerov1.BackupSpec, err error) {
	spec = c.spec
	spec.TTL.Duration, spec.CSISnapshotTimeout.Duration, spec.ItemOperationTimeout.Duration = c.ttl, c.csiTimeout, c.itemOperationsTimeout
	if spec.LabelSelector, spec.OrLabelSelectors, err = c.selectors.parse(); err != nil {
		return spec, err
	}
	if spec.OrderedResources, err = parseOrdered(c.ordered); err != nil {
		return spec, err
	}
	if c.policies != "" {
		spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: c.policies}
	}
	if c.parallelFiles > 0 {
		spec.UploaderConfig = &velerov1.UploaderConfigForBackup{ParallelFilesUpload: c.parallelFiles}
	}
	return spec, nil
}

func (c *backupCreate) run(ctx context.Context, a *App, args []string) error {
	s, err := a.cluster.connect()
	if err != nil {
		return err
	}
	backup, err := c.build(ctx, s, args)
	if err != nil {
		return err
	}
	if printed, err := c.print(a, backup); printed {
		return err
	}
	err = s.Create(ctx, backup)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a backup named %s exists; choose another name, or delete it with \"cleat backup delete %s\"", backup.Name, backup.Name)
	}
	if err != nil {
		return fmt.Errorf("create the backup: %w", err)
	}
	fmt.Fprintf(a.Out, "Backup request %q submitted successfully.\n", backup.Name)
	if !c.wait {
		fmt.Fprintf(a.Out, "Run \"cleat backup describe %s\" or \"cleat backup logs %s\" for more details.\n", backup.Name, backup.Name)
		return nil
	}
	return a.awaitBackup(ctx, s, backup)
}

// build makes the Backup from the flags, on top of a schedule's template if there is one.
func (c *backupCreate) build(ctx context.Context, s *session, args []string) (*velerov1.Backup, error) {
	spec, err := c.backupFlags.build()
	if err != nil {
		return nil, err
	}
	backup := &velerov1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Labels: c.labels, Annotations: c.annotations},
		Spec:       spec,
	}
	if c.fromSchedule != "" {
		if err := c.fromTemplate(ctx, s, backup); err != nil {
			return nil, err
		}
	}
	if len(args) > 0 {
		backup.Name = args[0]
	}
	if backup.Name == "" {
		return nil, errors.New("the backup has no name: cleat backup create NAME")
	}
	return backup, nil
}

// fromTemplate takes the spec of a schedule, and a name from the schedule and the time.
func (c *backupCreate) fromTemplate(ctx context.Context, s *session, backup *velerov1.Backup) error {
	var schedule velerov1.Schedule
	if err := s.Get(ctx, s.key(c.fromSchedule), &schedule); err != nil {
		return fmt.Errorf("--from-schedule: %w", err)
	}
	made := controller.ScheduledBackup(&schedule, time.Now())
	maps.Copy(made.Labels, backup.Labels)
	if made.Annotations == nil {
		made.Annotations = make(map[string]string)
	}
	maps.Copy(made.Annotations, backup.Annotations)
	*backup = *made
	return nil
}

// awaitBackup shows the backup until it has ended.
func (a *App) awaitBackup(ctx context.Context, s *session, b *velerov1.Backup) error {
	see := func() state {
		now := state{phase: phaseOr(string(b.Status.Phase)), ended: b.Status.Phase.Terminal()}
		if p := b.Status.Progress; p != nil {
			now.done, now.total = p.ItemsBackedUp, p.TotalItems
		}
		return now
	}
	if err := s.await(ctx, b, &velerov1.BackupList{}, see, newDisplay(a.Err, "backup "+b.Name)); err != nil {
		return fmt.Errorf("wait for the backup: %w", err)
	}
	more := fmt.Sprintf("run \"cleat backup describe %s --details\" or \"cleat backup logs %s\" for more", b.Name, b.Name)
	switch b.Status.Phase {
	case velerov1.BackupPhaseCompleted:
		items := 0
		if b.Status.Progress != nil {
			items = b.Status.Progress.ItemsBackedUp
		}
		fmt.Fprintf(a.Out, "Backup completed with status: Completed, %s; %s.\n", counted(items, "item"), counted(b.Status.Warnings, "warning"))
		return nil
	case velerov1.BackupPhaseFailedValidation:
		return fmt.Errorf("backup %s failed validation: %s", b.Name, joined(b.Status.ValidationErrors))
	case velerov1.BackupPhasePartiallyFailed:
		return fmt.Errorf("backup %s completed with status: PartiallyFailed, %s; %s", b.Name, counted(b.Status.Errors, "error"), more)
	default:
		return fmt.Errorf("backup %s completed with status: %s: %s; %s", b.Name, b.Status.Phase, orNone(b.Status.FailureReason), more)
	}
}

// getBackups is how commands get backups.
func getBackups() getter[velerov1.Backup, *velerov1.BackupList] {
	return getter[velerov1.Backup, *velerov1.BackupList]{
		newList: func() *velerov1.BackupList { return &velerov1.BackupList{} },
		items:   func(l *velerov1.BackupList) *[]velerov1.Backup { return &l.Items },
		sort:    sortBackups,
		table:   backupTable,
		meta:    func(b *velerov1.Backup) client.Object { return b },
		retype: func(b *velerov1.Backup) {
			b.TypeMeta = metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"}
		},
	}
}

func (a *App) backupGetCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List backups",
		RunE: func(cmd *cobra.Command, args []string) error {
			return getBackups().run(cmd.Context(), a, f, args)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *App) backupLogsCommand() *cobra.Command {
	var d downloads
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of a backup",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.cluster.connect()
			if err != nil {
				return err
			}
			var b velerov1.Backup
			if err := s.Get(cmd.Context(), s.key(args[0]), &b); err != nil {
				return err
			}
			if !logStored(string(b.Status.Phase)) {
				return fmt.Errorf("the log of backup %s is stored when its run has ended; its phase is %s", b.Name, phaseOr(string(b.Status.Phase)))
			}
			err = d.copyFile(cmd.Context(), s, velerov1.DownloadTargetKindBackupLog, b.Name, b.Spec.StorageLocation, a.Out)
			if errors.Is(err, errNoFile) {
				return fmt.Errorf("there is no log of backup %s in the object storage; its phase is %s (%s)", b.Name, b.Status.Phase, orNone(b.Status.FailureReason))
			}
			return err
		},
	}
	d.add(cmd.Flags(), time.Minute)
	return cmd
}

// logStored reports whether an operation in this phase has stored its log, unless it failed early.
func logStored(phase string) bool {
	switch phaseOr(phase) {
	case string(velerov1.BackupPhaseNew), string(velerov1.BackupPhaseQueued), string(velerov1.BackupPhaseReadyToStart),
		string(velerov1.BackupPhaseInProgress), string(velerov1.BackupPhaseFailedValidation):
		return false
	default:
		return true
	}
}
