package store

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
)

// topLevel returns the directories that may be at the root of a location (Velero's layout). A bucket with any other
// directory is shared with something else.
func topLevel() []string {
	return []string{"backups", "restores", "restic", "metadata", "plugins", "kopia"}
}

// MetadataFile is the name of the file that makes a directory a backup.
const MetadataFile = "velero-backup.json"

// ContentsFile returns the name of the archive of a backup.
func ContentsFile(backup string) string { return nameIn(newLayout("").contents(backup)) }

// ItemSumsFile is the name, after that of the backup and "-", of the file with the sums of the items in the archive, as
// archive.Sums has them.
const ItemSumsFile = "items.sha256.gz"

// layout maps names of backups and restores to keys. Directories end in "/".
type layout struct {
	root     string // the location's prefix, or ""
	backups  string
	restores string
}

func newLayout(prefix string) layout {
	root := strings.Trim(prefix, "/")
	if root != "" {
		root += "/"
	}
	return layout{
		root:     root,
		backups:  path.Join(root, "backups") + "/",
		restores: path.Join(root, "restores") + "/",
	}
}

func (l layout) backupDir(name string) string  { return l.backups + name + "/" }
func (l layout) restoreDir(name string) string { return l.restores + name + "/" }

func (l layout) metadata(backup string) string { return l.backupDir(backup) + MetadataFile }

func (l layout) backup(name, suffix string) string {
	return l.backupDir(name) + name + suffix
}

func (l layout) contents(backup string) string { return l.backup(backup, ".tar.gz") }
func (l layout) log(backup string) string      { return l.backup(backup, "-logs.gz") }
func (l layout) podVolumeBackups(backup string) string {
	return l.backup(backup, "-podvolumebackups.json.gz")
}

func (l layout) volumeSnapshots(backup string) string {
	return l.backup(backup, "-volumesnapshots.json.gz")
}
func (l layout) itemOperations(backup string) string {
	return l.backup(backup, "-itemoperations.json.gz")
}
func (l layout) resourceList(backup string) string { return l.backup(backup, "-resource-list.json.gz") }
func (l layout) itemSums(backup string) string     { return l.backup(backup, "-"+ItemSumsFile) }
func (l layout) results(backup string) string      { return l.backup(backup, "-results.gz") }
func (l layout) volumeInfo(backup string) string   { return l.backup(backup, "-volumeinfo.json.gz") }

func (l layout) csiVolumeSnapshots(backup string) string {
	return l.backup(backup, "-csi-volumesnapshots.json.gz")
}

func (l layout) csiVolumeSnapshotContents(backup string) string {
	return l.backup(backup, "-csi-volumesnapshotcontents.json.gz")
}

func (l layout) csiVolumeSnapshotClasses(backup string) string {
	return l.backup(backup, "-csi-volumesnapshotclasses.json.gz")
}

// backupFiles returns the keys of the files that a backup may have beside velero-backup.json and its artifacts.
func (l layout) backupFiles(name string) []string {
	return []string{
		l.contents(name), l.log(name), l.podVolumeBackups(name), l.volumeSnapshots(name), l.itemOperations(name),
		l.resourceList(name), l.itemSums(name),
		l.results(name), l.volumeInfo(name), l.csiVolumeSnapshots(name), l.csiVolumeSnapshotContents(name),
		l.csiVolumeSnapshotClasses(name),
	}
}

// artifact returns the key of a file of a manifest writer.
func (l layout) artifact(backup, name string) string { return l.backup(backup, "-"+name) }

func (l layout) restore(name, suffix string) string {
	return l.restoreDir(name) + "restore-" + name + suffix
}

func (l layout) restoreLog(restore string) string     { return l.restore(restore, "-logs.gz") }
func (l layout) restoreResults(restore string) string { return l.restore(restore, "-results.gz") }

func (l layout) restoreResourceList(restore string) string {
	return l.restore(restore, "-resource-list.json.gz")
}

func (l layout) restoreItemOperations(restore string) string {
	return l.restore(restore, "-itemoperations.json.gz")
}

func (l layout) restoreItems(restore string) string { return l.restore(restore, "-"+outcome.FileName) }

func (l layout) restoreDryRun(restore string) string { return l.restore(restore, "-"+dryrun.FileName) }

// restoreVolumeInfo returns the key of the only file of a restore without "restore-" in its name (Velero's layout).
func (l layout) restoreVolumeInfo(restore string) string {
	return l.restoreDir(restore) + restore + "-volumeinfo.json.gz"
}

// download returns the key of a file that a DownloadRequest may request.
func (l layout) download(kind velerov1.DownloadTargetKind, name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	keys := map[velerov1.DownloadTargetKind]func(string) string{
		velerov1.DownloadTargetKindBackupLog:                       l.log,
		velerov1.DownloadTargetKindBackupContents:                  l.contents,
		velerov1.DownloadTargetKindBackupVolumeSnapshots:           l.volumeSnapshots,
		velerov1.DownloadTargetKindBackupItemOperations:            l.itemOperations,
		velerov1.DownloadTargetKindBackupResourceList:              l.resourceList,
		velerov1.DownloadTargetKindBackupResults:                   l.results,
		velerov1.DownloadTargetKindBackupVolumeInfos:               l.volumeInfo,
		velerov1.DownloadTargetKindCSIBackupVolumeSnapshots:        l.csiVolumeSnapshots,
		velerov1.DownloadTargetKindCSIBackupVolumeSnapshotContents: l.csiVolumeSnapshotContents,
		velerov1.DownloadTargetKindRestoreLog:                      l.restoreLog,
		velerov1.DownloadTargetKindRestoreResults:                  l.restoreResults,
		velerov1.DownloadTargetKindRestoreResourceList:             l.restoreResourceList,
		velerov1.DownloadTargetKindRestoreItemOperations:           l.restoreItemOperations,
		velerov1.DownloadTargetKindRestoreVolumeInfo:               l.restoreVolumeInfo,
	}
	key, ok := keys[kind]
	if !ok {
		known := make([]string, 0, len(keys))
		for k := range keys {
			known = append(known, string(k))
		}
		slices.Sort(known)
		return "", fmt.Errorf("unknown kind of download %q, want one of %s", kind, strings.Join(known, ", "))
	}
	return key(name), nil
}

// checkName returns an error unless name is a valid name of a Backup or Restore, so that a name is always exactly one
// segment of a key.
func checkName(name string) error {
	if isLabel(name) {
		return nil
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q cannot be the name of a backup or restore: %s", name, strings.Join(problems, "; "))
	}
	return nil
}

// isLabel reports whether name is a DNS label, as almost all names are. It saves the regular expression for the names
// of a long list.
func isLabel(name string) bool {
	if len(name) == 0 || len(name) > validation.DNS1123LabelMaxLength || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
