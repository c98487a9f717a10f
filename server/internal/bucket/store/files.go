package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// CheckArtifact returns an error unless a file of a manifest writer can have this name, which comes after the backup's:
// a name that Velero or this server uses, or that people may take for the archive, is refused.
func CheckArtifact(name string) error {
	l := newLayout("")
	switch {
	case !manifestwriter.IsArtifactName(name):
		return fmt.Errorf("%q cannot be the name of a file beside a backup, want lower-case letters, digits, \"-\", \"_\" "+
			"and \".\"", name)
	case slices.Contains(l.backupFiles("x"), l.artifact("x", name)), strings.HasPrefix(name, "csi-"), name == MetadataFile,
		name == AllFiles, name == ChecksumsFile, name == SignatureFile:
		return fmt.Errorf("%s is the name of a file that each backup has; choose another name", name)
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
		return fmt.Errorf("%s would look like the archive of a backup; choose another name", name)
	}
	return nil
}

// File names a file of a backup or restore.
type File struct {
	velerov1.DownloadTarget
	// Artifact, unless empty, is the name of a file of a manifest writer, of a dry run, or of what became of the items of
	// a restore, or AllFiles. The target is the resource list of the backup or restore then.
	Artifact string
}

func (l layout) key(file File) (string, error) {
	switch {
	case isAllFiles(file):
		return "", errAllFiles
	case file.Kind == velerov1.DownloadTargetKindBackupResourceList && isOfChecksums(file.Artifact):
		return l.artifact(file.Name, file.Artifact), checkName(file.Name)
	case file.Artifact == "":
		return l.download(file.Kind, file.Name)
	case file.Kind == velerov1.DownloadTargetKindRestoreResourceList && file.Artifact == dryrun.FileName:
		return l.restoreDryRun(file.Name), checkName(file.Name)
	case file.Kind == velerov1.DownloadTargetKindRestoreResourceList && file.Artifact == outcome.FileName:
		return l.restoreItems(file.Name), checkName(file.Name)
	case file.Kind != velerov1.DownloadTargetKindBackupResourceList:
		return "", fmt.Errorf("the file %s of %s is requested, want %s beside the name of a file", file.Artifact, file.Kind,
			velerov1.DownloadTargetKindBackupResourceList)
	}
	return l.artifact(file.Name, file.Artifact), errors.Join(checkName(file.Name), CheckArtifact(file.Artifact))
}

// PutArtifacts stores files of manifest writers beside the archive, by their names. It is called before Commit, which
// makes the backup visible. It stores all of them or none: after a failure it deletes them. If the bucket has another
// backup of that name, it returns ErrBackupExists.
func (u *Upload) PutArtifacts(ctx context.Context, uid types.UID, files map[string]io.ReadSeeker) error {
	if err := u.store.mustNotExist(ctx, u.name); err != nil {
		if stored, errUID := u.store.BackupUID(ctx, u.name); errUID != nil || stored != uid {
			return err
		}
	}
	artifacts, err := u.store.artifacts(u.name, files)
	if err != nil {
		return err
	}
	if err := u.store.putAll(ctx, artifacts); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		var keys []string
		for _, a := range artifacts {
			keys = append(keys, a.key)
		}
		return withCleanup(err, u.store.deleteAll(ctx, keys))
	}
	return nil
}

// ReplaceArtifacts stores files of manifest writers beside the archive of a backup, by their names. After a failure,
// some files may be unchanged.
func (s *Store) ReplaceArtifacts(ctx context.Context, backup string, files map[string]io.ReadSeeker) error {
	artifacts, err := s.artifacts(backup, files)
	if err != nil {
		return err
	}
	return s.putAll(ctx, artifacts)
}

func (s *Store) artifacts(backup string, files map[string]io.ReadSeeker) (all []artifact, err error) {
	if err := checkName(backup); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := CheckArtifact(name); err != nil {
			return nil, err
		}
		all = append(all, artifact{s.layout.artifact(backup, name), files[name]})
	}
	return all, nil
}

// Artifact streams a file of a manifest writer. It returns ErrNotFound if there is none.
func (s *Store) Artifact(ctx context.Context, backup, name string) (io.ReadCloser, error) {
	target := velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupResourceList, Name: backup}
	return s.Download(ctx, File{DownloadTarget: target, Artifact: name})
}
