package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/kube/wholefile"
)

func newDownloadCommand(a *command.App) *cobra.Command {
	var d runs.Downloads
	var output string
	var force bool
	cmd := &cobra.Command{
		Use:   "download NAME",
		Short: "Download the archive of a backup",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			var b velerov1.Backup
			if err := cluster.Get(cmd.Context(), cluster.Key(args[0]), &b); err != nil {
				return err
			}
			file, err := d.File(cmd.Context(), cluster, runs.Target{
				Kind: velerov1.DownloadTargetKindBackupContents, Name: b.Name, Location: b.Spec.StorageLocation,
			})
			if errors.Is(err, runs.ErrNoFile) {
				return fmt.Errorf("the object storage has no archive of backup %s; its phase is %s", b.Name,
					cmp.Or(b.Status.Phase, velerov1.BackupPhaseNew))
			}
			if err != nil {
				return err
			}
			path := cmp.Or(output, b.Name+"-data.tar.gz")
			if err := save(cmd.Context(), a, file, path, force); err != nil {
				return errors.Join(err, file.Close())
			}
			fmt.Fprintf(a.Out, "Backup %s has been successfully downloaded to %s\n", b.Name, path)
			return file.Close()
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	d.Add(cmd.Flags(), time.Minute)
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write; NAME-data.tar.gz without it")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return cmd
}

// save writes the content of a file to path, completely or not at all.
func save(ctx context.Context, a *command.App, file *runs.File, path string, force bool) error {
	if _, err := os.Stat(path); err == nil && !force {
		return fmt.Errorf("%s exists; replace it with --force, or name another file with --output", path)
	}
	content, err := file.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // only read from
	target, err := wholefile.Create(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer target.Abort()
	if err = copyWithBar(a, filepath.Base(path), file.Size(), target, content); err == nil {
		err = target.Commit(0o600)
	}
	if err != nil {
		return fmt.Errorf("download to %s: %w", path, err)
	}
	return nil
}

// copyWithBar copies a download of a size, if that is known, with a bar of a name.
func copyWithBar(a *command.App, name string, size int64, to io.Writer, from io.Reader) error {
	bar := command.NewBytesBar(a.Err, name, size)
	_, err := io.Copy(io.MultiWriter(to, bar), from)
	_ = bar.Finish() // fails only if the terminal was closed
	return err
}
