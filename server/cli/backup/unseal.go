package backup

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

func newUnsealCommand(a *command.App) *cobra.Command {
	var d runs.Downloads
	var dir string
	cmd := &cobra.Command{
		Use:   "unseal NAME",
		Short: "Copy all files of a backup, unsealed, to a directory that is laid out like a bucket",
		Long: "Copy all files of a backup, unsealed, to a directory that is laid out like a bucket: a copy of the " +
			"directory in a bucket is a backup for Velero. The server reads the files with the keys of the location, so " +
			"that this machine needs none; it must have an address for downloads (--download-url). The directory gets all " +
			"files of the backup or none. Volumes are not copied: their data is in the bucket of the location, encrypted " +
			"with its own password.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return errors.New("want the directory to copy to, --to DIR")
			}
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			var b velerov1.Backup
			if err := cluster.Get(cmd.Context(), cluster.Key(args[0]), &b); err != nil {
				return err
			}
			target := filepath.Join(dir, "backups", b.Name)
			if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
				return cmp.Or(err, fmt.Errorf("%s exists; remove it, or name another directory with --to", target))
			}
			if !b.Status.Phase.Terminal() {
				return fmt.Errorf("backup %s is in phase %s, so its files are not complete yet", b.Name,
					cmp.Or(b.Status.Phase, velerov1.BackupPhaseNew))
			}
			size, err := unseal(cmd.Context(), a, &d, cluster, &b, dir)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "Backup %s has been unsealed to %s (%d bytes)\n", b.Name, target, size)
			return nil
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	d.Add(cmd.Flags(), time.Minute)
	cmd.Flags().StringVar(&dir, "to", "", "directory to copy to; the files are in DIR/backups/NAME")
	return cmd
}

// unseal copies the files of a backup to DIR/backups/NAME, all or none, and returns their size.
func unseal(
	ctx context.Context, a *command.App, d *runs.Downloads, cluster *command.Cluster, b *velerov1.Backup, dir string,
) (size int64, err error) {
	file, err := d.File(ctx, cluster, runs.Target{
		Kind: velerov1.DownloadTargetKindBackupResourceList, Name: b.Name, Location: b.Spec.StorageLocation,
		Annotations: map[string]string{velerov1.FileAnnotation: store.AllFiles},
	})
	var archive *os.File
	if err == nil {
		defer func() { err = errors.Join(err, file.Close()) }()
		archive, err = fetchArchive(ctx, a, file, b.Name)
	}
	if errors.Is(err, runs.ErrNoFile) {
		return 0, fmt.Errorf("the object storage has no files of backup %s, or the server is older than this program", b.Name)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = archive.Close() }() // a temporary file
	partial := filepath.Join(dir, ".unseal-"+b.Name)
	if err := os.RemoveAll(partial); err != nil { // of one that was killed
		return 0, err
	}
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(partial)) }()
	if size, err = unpack(archive, b.Name, partial); err != nil {
		return 0, fmt.Errorf("unseal backup %s: %w", b.Name, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "backups"), 0o700); err != nil {
		return 0, err
	}
	return size, os.Rename(partial, filepath.Join(dir, "backups", b.Name))
}

// fetchArchive downloads the files of a backup to a temporary file.
func fetchArchive(ctx context.Context, a *command.App, file *runs.File, name string) (*os.File, error) {
	content, err := file.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // only read from
	archive, err := runs.TemporaryFile()
	if err != nil {
		return nil, err
	}
	if err = copyWithBar(a, name, file.Size(), archive, content); err != nil {
		return nil, errors.Join(fmt.Errorf("download the files of backup %s; the log of the server has the reason if it "+
			"could not read them: %w", name, err), archive.Close())
	}
	return archive, nil
}

// unpack writes the files in an archive of a server to a directory.
func unpack(archive *os.File, backup, dir string) (size int64, err error) {
	info, err := archive.Stat()
	if err != nil {
		return 0, err
	}
	entries, err := zip.NewReader(archive, info.Size())
	if err != nil {
		return 0, fmt.Errorf("the server sent no archive of its files: %w; is it older than this program?", err)
	}
	complete := false
	for _, entry := range entries.File {
		name, ok := strings.CutPrefix(entry.Name, "backups/"+backup+"/")
		if !ok || !filepath.IsLocal(name) || filepath.Base(name) != name || strings.ContainsAny(name, `/\:`) {
			return 0, fmt.Errorf("the archive of the server has %q, want files of backups/%s only", entry.Name, backup)
		}
		n, err := unpackFile(entry, filepath.Join(dir, name))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", entry.Name, err)
		}
		size += n
		complete = complete || name == "velero-backup.json"
	}
	if !complete {
		return 0, errors.New("the archive of the server has no velero-backup.json")
	}
	return size, nil
}

// unpackFile writes a file that does not exist, and has it on disk.
func unpackFile(entry *zip.File, path string) (size int64, err error) {
	content, err := entry.Open()
	if err != nil {
		return 0, err
	}
	defer func() { _ = content.Close() }() // only read from
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(file, content)
	return size, errors.Join(err, file.Sync(), file.Close())
}
