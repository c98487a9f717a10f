package glue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

func TestWireKindIsOneWord(t *testing.T) {
	t.Parallel()
	for wire, want := range map[string]struct {
		kind    string
		version int
	}{
		"BackupItemAction":         {"BackupItemAction", 1},
		"BackupItemActionV2":       {"BackupItemAction", 2},
		"QueueAdmissionV12":        {"QueueAdmission", 12},
		"VolumeSnapshotter":        {"VolumeSnapshotter", 1},
		"VolumeSnapshotterV3":      {"VolumeSnapshotter", 3},
		"":                         {"", 1},
		"V2":                       {"V2", 1},
		"FooV":                     {"FooV", 1},
		"FooV0":                    {"FooV0", 1},
		"FooV1":                    {"FooV1", 1},
		"FooV02":                   {"FooV02", 1},
		"FooV+2":                   {"FooV+2", 1},
		"FooV-2":                   {"FooV-2", 1},
		"FooV2V3":                  {"FooV2", 3},
		"FooV99999999999999999999": {"FooV99999999999999999999", 1},
	} {
		kind, version := glue.SplitWireKind(wire)
		require.Equal(t, want.kind, kind, wire)
		require.Equal(t, want.version, version, wire)
		require.Equal(t, wire, glue.WireKind(kind, version))
	}
}

func FuzzSplitWireKindRevertsWireKind(f *testing.F) {
	f.Add("BackupItemActionV2")
	f.Fuzz(func(t *testing.T, wire string) {
		kind, version := glue.SplitWireKind(wire)
		require.Positive(t, version)
		require.Equal(t, wire, glue.WireKind(kind, version))
	})
}
