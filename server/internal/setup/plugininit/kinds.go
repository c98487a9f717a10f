package plugininit

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// kind is a kind of plugin that a project can have, at its newest version.
type kind struct {
	Kind    string // its name: "BackupItemAction"
	Version int
	Alias   string // of the import of its package: "biav2"
	Package string // below framework: "backupitemaction/v2"
	File    string // of the implementation, without ".go": "backup_item_action"
	Config  string // defaults of its config, as Go; empty for a kind without config
	Does    string // description of the implementation in the template, for the README
	Use     string // how users enable it, for the README; empty if it is always enabled
}

func allKinds() []kind {
	return []kind{
		describe(kinds.BackupItemAction(), kind{
			Does: "annotates each ConfigMap in the backup with the backup's name",
		}),
		describe(kinds.AsyncBackupItemAction(), kind{
			Does: "works on each PersistentVolumeClaim while the backup goes on",
		}),
		describe(kinds.RestoreItemAction(), kind{
			Does: "takes an annotation off each ConfigMap that is restored",
		}),
		describe(kinds.AsyncRestoreItemAction(), kind{
			Does: "works on each PersistentVolumeClaim while the restore goes on",
		}),
		describe(kinds.DeleteItemAction(), kind{
			Does: "sees each PersistentVolume in a backup that is deleted",
		}),
		describe(kinds.ItemBlockAction(), kind{
			Does: "has pods backed up together that an annotation ties",
		}),
		describe(kinds.ObjectStore(), kind{
			Config: "objectStoreConfig{}",
			Does:   "keeps backups as files",
			Use: "The object store is used by a BackupStorageLocation that has its name as `provider`, and `config: {path: " +
				"/a/folder}`.",
		}),
		describe(kinds.VolumeSnapshotter(), kind{
			Config: "volumeSnapshotterConfig{}",
			Does:   "takes snapshots of hostPath volumes",
			Use: "The volume snapshotter is used by a VolumeSnapshotLocation that has its name as `provider`, and `config: " +
				"{path: /a/folder}`.",
		}),
		describe(kinds.QueueAdmission(), kind{
			Config: "queueAdmissionConfig{}",
			Does:   "starts backups in their order, unless it is paused",
			Use:    "The admission policy is used by a server whose config file names it under `backups.admission.plugin`.",
		}),
		describe(kinds.LoadSoothing(), kind{
			Config: "loadSoothingConfig{PerNode: 2}",
			Does:   "lets a few loads prepare per node",
			Use:    "The soothing policy is used by node agents whose config file names it under `nodeAgent.soothing.plugin`.",
		}),
		describe(kinds.ManifestWriter(), kind{
			Does: "counts the items of a backup by resource",
			Use:  "The manifest writer is used by a server whose config file names it under `backups.manifestWriters`.",
		}),
		describe(kinds.DataMover(), kind{
			Does: "keeps copies of the directories of volumes",
			Use: "The data mover is used by backups whose `datamover` is its name. Their location has `config: {path: " +
				"/a/folder}`.",
		}),
	}
}

// describe returns k as the newest version of a kind.
func describe[H any](of versioning.Kind[H], k kind) kind {
	newest := slices.MaxFunc(of.Versions, func(a, b versioning.Version[H]) int { return cmp.Compare(a.Number, b.Number) })
	k.Kind, k.Version = of.Name, newest.Number
	words := wordStart.ReplaceAllString(k.Kind, "_$0")[1:]
	k.File = strings.ToLower(words)
	k.Package = fmt.Sprintf("%s/v%d", strings.ToLower(k.Kind), k.Version)
	for word := range strings.SplitSeq(k.File, "_") {
		k.Alias += word[:1]
	}
	k.Alias += fmt.Sprintf("v%d", k.Version)
	return k
}

var wordStart = regexp.MustCompile(`[A-Z]`)

// Kinds returns the names of all kinds, as in Options.
func Kinds() []string {
	var words []string
	for _, kind := range allKinds() {
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
		if !slices.ContainsFunc(allKinds(), func(k kind) bool { return k.goesBy(word) }) {
			return nil, fmt.Errorf("kind %q is not known, there are: %s", word, strings.Join(Kinds(), ", "))
		}
	}
	return slices.DeleteFunc(allKinds(), func(k kind) bool { return !slices.ContainsFunc(words, k.goesBy) }), nil
}
