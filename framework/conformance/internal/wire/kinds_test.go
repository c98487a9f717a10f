package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/dynamicpb"
)

func TestProbeOfEveryKindNamesThePlugin(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kind := range kinds() {
		require.False(t, seen[kind.Wire], kind.Wire)
		seen[kind.Wire] = true
		method, err := methodOf(kind)
		require.NoError(t, err)
		request := dynamicpb.NewMessage(method.Input())
		setName(request, "example.io/a")
		require.Contains(t, prototext.MarshalOptions{}.Format(request), `"example.io/a"`, kind.Wire)
	}
	require.Len(t, seen, 14)
}

func TestVeleroListsItsKindsInOneOrder(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"BackupItemAction", "BackupItemActionV2", "VolumeSnapshotter", "ObjectStore", "RestoreItemAction",
		"RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction",
	}, VeleroKinds())
}
