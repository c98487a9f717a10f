package store

import (
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
)

// depth is how deep the files of a backup may be, which is some fifteen levels in a PodVolumeBackup.
const depth = 64

// metadataLimits bound velero-backup.json. A Backup comes from etcd, whose limit is 1.5 MiB; an API server takes
// requests of 3 MiB.
func metadataLimits() foreign.Limits {
	return foreign.Limits{Bytes: 3 << 20, Values: 50_000, Depth: depth}
}

// podVolumeLimits bound the list of PodVolumeBackups. An element has some 2 KiB; one is read at a time.
func podVolumeLimits() foreign.Limits {
	return foreign.Limits{Bytes: 512 << 20, Elements: 250_000, Element: 2 << 20, Values: 32 << 20, Depth: depth}
}

// LimitsOf bounds the other files, which are decoded as a whole.
func LimitsOf(kind velerov1.DownloadTargetKind) foreign.Limits {
	switch kind {
	case velerov1.DownloadTargetKindBackupItemOperations, velerov1.DownloadTargetKindRestoreItemOperations:
		// One operation for each item, of less than 1 KiB with 20 values.
		return foreign.Limits{Bytes: 512 << 20, Elements: 500_000, Element: 2 << 20, Values: 12_000_000, Depth: depth}
	case velerov1.DownloadTargetKindBackupVolumeInfos, velerov1.DownloadTargetKindRestoreVolumeInfo,
		velerov1.DownloadTargetKindBackupVolumeSnapshots:
		// One for each volume, of less than 1 KiB with 40 values. A cluster has 150,000 pods at most.
		return foreign.Limits{Bytes: 128 << 20, Elements: 150_000, Element: 256 << 10, Values: 6_000_000, Depth: depth}
	default:
		// The resource list of a million items has some 100 MiB, one value for each. Results have fewer and longer ones.
		return foreign.Limits{Bytes: 256 << 20, Values: 3_000_000, Depth: depth}
	}
}
