package backup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
)

func newDeleteCommand(a *command.App) *cobra.Command {
	var confirm, await, snapshots, force bool
	var which command.Selection
	cmd := &cobra.Command{
		Use:   "delete [NAME...]",
		Short: "Delete backups with all their data",
		Long: "Delete backups: their data in the object storage, the restores that were made from them, then the backups " +
			"themselves.\n" +
			"The files of a backup that a bucket has brought may name snapshots of others. The server refuses to delete such " +
			"a backup until\n" +
			"--delete-snapshots says whether what its files name is deleted too.\n" +
			"The files of a backup whose velero-backup.json is damaged stay, unless something else proves that they belong to " +
			"it, or --force\n" +
			"is given.",
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			backups, err := getter().Select(cmd.Context(), cluster, "backups", which, args)
			if err != nil {
				return err
			}
			if len(backups) == 0 {
				fmt.Fprintln(a.Out, "No backups found.")
				return nil
			}
			if !confirm {
				if err := a.Confirm(fmt.Sprintf("Delete %s with all data?", getter().Names(backups))); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("delete-snapshots") {
				if err := decide(cmd.Context(), cluster, backups, snapshots); err != nil {
					return err
				}
			}
			return deleteBackups(cmd.Context(), a, cluster, backups, await, force)
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	which.Add(cmd.Flags(), "delete", "backups")
	cmd.Flags().BoolVar(&confirm, "confirm", false, "do not ask")
	cmd.Flags().BoolVar(&snapshots, "delete-snapshots", false,
		"delete what the files of the backups name outside of the bucket even if nothing proves that it belongs to them; "+
			"=false deletes the backups without that")
	cmd.Flags().BoolVar(&force, "force", false,
		"delete the files of damaged backups even if nothing proves that they belong to them")
	cmd.Flags().BoolVarP(&await, "wait", "w", false, "wait until the backups are deleted")
	return cmd
}

// decide notes in backups what becomes of what their files name.
func decide(ctx context.Context, cluster *command.Cluster, backups []velerov1.Backup, snapshots bool) error {
	for i := range backups {
		b := &backups[i]
		before := b.DeepCopy()
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.DeleteSnapshotsAnnotation, strconv.FormatBool(snapshots))
		if err := cluster.Patch(ctx, b, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("write annotation %s of backup %s: %w", velerov1.DeleteSnapshotsAnnotation, b.Name, err)
		}
	}
	return nil
}

// deleteBackups asks the server to delete backups. With await it waits until they are deleted.
func deleteBackups(
	ctx context.Context, a *command.App, cluster *command.Cluster, backups []velerov1.Backup, await, force bool,
) error {
	var errs []error
	var requests []*velerov1.DeleteBackupRequest
	for i := range backups {
		b := &backups[i]
		request, err := RequestDeletion(ctx, cluster, b, force)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(a.Out, "Request to delete backup %q submitted successfully.\n", b.Name)
		requests = append(requests, request)
	}
	if !await {
		if len(requests) > 0 {
			fmt.Fprintln(a.Out, "The backup will be fully deleted after all associated data (files in object storage, "+
				"restores) are removed.")
		}
		return errors.Join(errs...)
	}
	for _, request := range requests {
		kept, err := awaitDeletion(ctx, cluster, request)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if kept != "" {
			fmt.Fprintf(a.Out, "Backup %q is %s by its bucket, and is deleted afterwards.\n", request.Spec.BackupName, kept)
			continue
		}
		fmt.Fprintf(a.Out, "Backup %q deleted.\n", request.Spec.BackupName)
		if request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed { // it has what could not be read
			for _, line := range request.Status.Errors {
				fmt.Fprintln(a.Out, "  "+line)
			}
		}
	}
	return errors.Join(errs...)
}

// RequestDeletion asks the server to delete a backup; with force, also files that nothing proves to belong to it.
func RequestDeletion(
	ctx context.Context, cluster *command.Cluster, b *velerov1.Backup, force bool,
) (*velerov1.DeleteBackupRequest, error) {
	request := &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, GenerateName: b.Name + "-",
			Labels: map[string]string{
				velerov1.BackupNameLabel: velerov1.ValidLabelValue(b.Name),
				velerov1.BackupUIDLabel:  string(b.UID),
			},
		},
		Spec: velerov1.DeleteBackupRequestSpec{BackupName: b.Name},
	}
	if force {
		request.Annotations = map[string]string{velerov1.ForceAnnotation: "true"}
	}
	if err := cluster.Create(ctx, request); err != nil {
		return nil, fmt.Errorf("request the deletion of backup %s: %w", b.Name, err)
	}
	return request, nil
}

// awaitDeletion waits until the backup of a request is deleted, or its bucket keeps it: "kept until DATE". It returns the
// errors with which the server answers.
func awaitDeletion(
	ctx context.Context, cluster *command.Cluster, request *velerov1.DeleteBackupRequest,
) (kept string, err error) {
	uid := request.Labels[velerov1.BackupUIDLabel]
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := cluster.Get(ctx, cluster.Key(request.Spec.BackupName), &b)
		gone := apierrors.IsNotFound(err) || err == nil && string(b.UID) != uid
		if err != nil && !gone {
			return false, err
		}
		err = cluster.Get(ctx, client.ObjectKeyFromObject(request), request)
		processed := request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed
		switch {
		case apierrors.IsNotFound(err):
			return gone, nil
		case err != nil:
			return false, err
		case gone:
			return processed, nil
		case processed && len(request.Status.Errors) > 0:
			return false, fmt.Errorf("%s", strings.Join(request.Status.Errors, "; "))
		}
		if value := request.Annotations[velerov1.KeptAnnotation]; value != "" {
			kept = velerov1.KeptText(value)
		}
		return kept != "", nil
	})
	if err != nil {
		return "", fmt.Errorf("backup %s was not deleted: %w", request.Spec.BackupName, err)
	}
	return kept, nil
}
