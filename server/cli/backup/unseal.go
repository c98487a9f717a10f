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
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

func newUnsealCommand(a *command.App) *cobra.Command {
	u := unsealing{App: a}
	var location string
	cmd := &cobra.Command{
		Use:   "unseal [NAME]",
		Short: "Copy all files of a backup, unsealed, to a directory that is laid out like a bucket",
		Long: "Copy all files of a backup, or of all backups of a location, unsealed, to a directory that is laid out like " +
			"a bucket: a copy of the directory in a bucket has backups for Velero. The server reads the files with the keys " +
			"of the location, so that this machine needs none; it must have an address for downloads (--download-url). The " +
			"directory gets all files of a backup or none. Volumes are not copied: their data is in the bucket of the " +
			"location, encrypted with its own password.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			switch {
			case u.dir == "":
				return errors.New("want the directory to copy to, --to DIR")
			case (len(args) == 1) == (location != ""):
				return errors.New("want either the name of a backup or a location whose backups to copy, --location NAME")
			}
			if u.cluster, err = a.Cluster.Connect(); err != nil {
				return err
			}
			if location != "" {
				return u.all(cmd.Context(), location)
			}
			var b velerov1.Backup
			if err := u.cluster.Get(cmd.Context(), u.cluster.Key(args[0]), &b); err != nil {
				return err
			}
			return u.one(cmd.Context(), &b)
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	u.downloads.Add(cmd.Flags(), time.Minute)
	cmd.Flags().StringVar(&u.dir, "to", "", "directory to copy to; the files are in DIR/backups/NAME")
	cmd.Flags().StringVar(&location, "location", "", "copy all backups of this location that are not in the directory")
	return cmd
}

// unsealing copies files of backups to a directory.
type unsealing struct {
	*command.App
	downloads runs.Downloads
	cluster   *command.Cluster
	dir       string
}

// one copies a backup that must not be in the directory.
func (u *unsealing) one(ctx context.Context, b *velerov1.Backup) error {
	target := filepath.Join(u.dir, "backups", b.Name)
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fmt.Errorf("%s %w; remove it, or name another directory with --to", target, fs.ErrExist))
	}
	if !b.Status.Phase.Terminal() {
		return fmt.Errorf("backup %s is in phase %s, so its files are not complete yet", b.Name,
			cmp.Or(b.Status.Phase, velerov1.BackupPhaseNew))
	}
	size, err := u.copy(ctx, b)
	if err != nil {
		return err
	}
	fmt.Fprintf(u.Out, "Backup %s has been unsealed to %s (%d bytes)\n", b.Name, target, size)
	return nil
}

// all copies the backups of a location that can be restored and are not in the directory, so that it can be repeated.
func (u *unsealing) all(ctx context.Context, location string) error {
	var found velerov1.BackupStorageLocation
	if err := u.cluster.Get(ctx, u.cluster.Key(location), &found); err != nil {
		return err
	}
	var list velerov1.BackupList
	if err := u.cluster.List(ctx, &list, client.InNamespace(u.cluster.Namespace)); err != nil {
		return err
	}
	var failed []error
	copied, there, unfinished := 0, 0, 0
	for i := range list.Items {
		b := &list.Items[i]
		switch phase := b.Status.Phase; {
		case b.Spec.StorageLocation != location,
			phase == velerov1.BackupPhaseFailed, phase == velerov1.BackupPhaseFailedValidation:
			continue
		case !phase.Terminal():
			unfinished++
			continue
		}
		switch err := u.one(ctx, b); {
		case err == nil:
			copied++
		case errors.Is(err, fs.ErrExist):
			there++
		case ctx.Err() != nil:
			return err
		default:
			failed = append(failed, err)
		}
	}
	fmt.Fprintf(u.Out, "%d backups of location %s have been unsealed, %d were in %s already, %d are not finished, %d "+
		"have failed\n", copied, location, there, u.dir, unfinished, len(failed))
	return errors.Join(failed...)
}

// copy copies the files of a backup to DIR/backups/NAME, all or none, and returns their size.
func (u *unsealing) copy(ctx context.Context, b *velerov1.Backup) (size int64, err error) {
	file, err := u.downloads.File(ctx, u.cluster, runs.Target{
		Kind: velerov1.DownloadTargetKindBackupResourceList, Name: b.Name, Location: b.Spec.StorageLocation,
		Annotations: map[string]string{velerov1.FileAnnotation: store.AllFiles},
	})
	var archive *spool.File
	if err == nil {
		defer func() { err = errors.Join(err, file.Close()) }()
		archive, err = fetchArchive(ctx, u.App, file, b.Name)
	}
	if errors.Is(err, runs.ErrNoFile) {
		return 0, fmt.Errorf("the object storage has no files of backup %s, or the server is older than this program", b.Name)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = archive.Close() }() // a temporary file
	partial := filepath.Join(u.dir, ".unseal-"+b.Name)
	if err := os.RemoveAll(partial); err != nil { // of one that was killed
		return 0, err
	}
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(partial)) }()
	if size, err = unpack(archive, archive.Size(), b.Name, partial); err != nil {
		return 0, fmt.Errorf("unseal backup %s: %w", b.Name, err)
	}
	if err := os.MkdirAll(filepath.Join(u.dir, "backups"), 0o700); err != nil {
		return 0, err
	}
	return size, os.Rename(partial, filepath.Join(u.dir, "backups", b.Name))
}

// fetchArchive downloads the files of a backup to a temporary file.
func fetchArchive(ctx context.Context, a *command.App, file *runs.File, name string) (*spool.File, error) {
	content, err := file.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // only read from
	archive, err := spool.New("", "the files of backup "+name)
	if err != nil {
		return nil, err
	}
	if err = copyWithBar(a, name, file.Size(), archive, content); err != nil {
		return nil, errors.Join(fmt.Errorf("download the files of backup %s; the log of the server has the reason if it "+
			"could not read them: %w", name, err), archive.Close())
	}
	return archive, nil
}

// unpack writes the files in an archive of a server, which has a length in bytes, to a directory.
func unpack(archive io.ReaderAt, length int64, backup, dir string) (size int64, err error) {
	entries, err := zip.NewReader(archive, length)
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
