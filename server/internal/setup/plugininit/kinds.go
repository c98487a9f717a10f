package plugininit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// kind is a kind of plugin that a project can have, at its newest version.
type kind struct {
	Kind    string // its name: "BackupItemAction"
	Version int
	Alias   string // of the import of its package: "biav2"
	Package string // below framework
	File    string // of the implementation, without ".go"
	Config  string // defaults of its config, as Go; empty for a kind without config
	Does    string // description of the implementation in the template, for the README
	Use     string // how users enable it, for the README; empty if it is always enabled
}

// kinds returns all kinds.
func kinds() []kind {
	return []kind{
		{
			Kind: "BackupItemAction", Version: 2, Alias: "biav2", Package: "backupitemaction/v2", File: "backup_item_action",
			Does: "annotates each ConfigMap in the backup with the backup's name",
		},
		{
			Kind: "AsyncBackupItemAction", Version: 1, Alias: "abiav1", Package: "asyncbackupitemaction/v1",
			File: "async_backup_item_action",
			Does: "works on each PersistentVolumeClaim while the backup goes on",
		},
		{
			Kind: "RestoreItemAction", Version: 2, Alias: "riav2", Package: "restoreitemaction/v2", File: "restore_item_action",
			Does: "takes an annotation off each ConfigMap that is restored",
		},
		{
			Kind: "AsyncRestoreItemAction", Version: 1, Alias: "ariav1", Package: "asyncrestoreitemaction/v1",
			File: "async_restore_item_action",
			Does: "works on each PersistentVolumeClaim while the restore goes on",
		},
		{
			Kind: "DeleteItemAction", Version: 1, Alias: "diav1", Package: "deleteitemaction/v1", File: "delete_item_action",
			Does: "sees each PersistentVolume in a backup that is deleted",
		},
		{
			Kind: "ItemBlockAction", Version: 1, Alias: "ibav1", Package: "itemblockaction/v1", File: "item_block_action",
			Does: "has pods backed up together that an annotation ties",
		},
		{
			Kind: "ObjectStore", Version: 1, Alias: "osv1", Package: "objectstore/v1", File: "object_store",
			Config: "objectStoreConfig{}",
			Does:   "keeps backups as files",
			Use: "The object store is used by a BackupStorageLocation that has its name as `provider`, and `config: {path: " +
				"/a/folder}`.",
		},
		{
			Kind: "VolumeSnapshotter", Version: 1, Alias: "vsv1", Package: "volumesnapshotter/v1", File: "volume_snapshotter",
			Config: "volumeSnapshotterConfig{}",
			Does:   "takes snapshots of hostPath volumes",
			Use: "The volume snapshotter is used by a VolumeSnapshotLocation that has its name as `provider`, and `config: " +
				"{path: /a/folder}`.",
		},
		{
			Kind: "QueueAdmission", Version: 1, Alias: "qav1", Package: "queueadmission/v1", File: "queue_admission",
			Config: "queueAdmissionConfig{}",
			Does:   "starts backups in their order, unless it is paused",
			Use:    "The admission policy is used by a server whose config file names it under `backups.admission.plugin`.",
		},
		{
			Kind: "LoadSoothing", Version: 1, Alias: "lsv1", Package: "loadsoothing/v1", File: "load_soothing",
			Config: "loadSoothingConfig{PerNode: 2}",
			Does:   "lets a few loads prepare per node",
			Use:    "The soothing policy is used by node agents whose config file names it under `nodeAgent.soothing.plugin`.",
		},
		{
			Kind: "ManifestWriter", Version: 1, Alias: "mwv1", Package: "manifestwriter/v1", File: "manifest_writer",
			Does: "counts the items of a backup by resource",
			Use:  "The manifest writer is used by a server whose config file names it under `backups.manifestWriters`.",
		},
		{
			Kind: "DataMover", Version: 1, Alias: "dmv1", Package: "datamover/v1", File: "data_mover",
			Does: "keeps copies of the directories of volumes",
			Use: "The data mover is used by backups whose `datamover` is its name. Their location has `config: {path: " +
				"/a/folder}`.",
		},
	}
}

// Kinds returns the names of all kinds, as in Options.
func Kinds() []string {
	var words []string
	for _, kind := range kinds() {
		words = append(words, kind.Kind)
	}
	return words
}

// goesBy reports whether word names the kind, in upper or lower case, also with its version: "BackupItemActionV2".
func (k kind) goesBy(word string) bool {
	return strings.EqualFold(word, k.Kind) || strings.EqualFold(word, hostapi.WireKind(k.Kind, k.Version))
}

// chosen returns the kinds that words name, in the order of the list. Without words it returns BackupItemAction.
func chosen(words []string) ([]kind, error) {
	if len(words) == 0 {
		words = []string{"BackupItemAction"}
	}
	for _, word := range words {
		if !slices.ContainsFunc(kinds(), func(k kind) bool { return k.goesBy(word) }) {
			return nil, fmt.Errorf("kind %q is not known, there are: %s", word, strings.Join(Kinds(), ", "))
		}
	}
	return slices.DeleteFunc(kinds(), func(k kind) bool { return !slices.ContainsFunc(words, k.goesBy) }), nil
}
