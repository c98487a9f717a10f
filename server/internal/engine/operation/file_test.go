package operation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

func pvc(name string) framework.ResourceIdentifier {
	return framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: "shop", Name: name}
}

// The files that Velero's own types encode for these operations.
const (
	backupFile = `[{"spec":{"backupName":"nightly","backupUID":"u-1","backupItemAction":"velero.io/csi",` +
		`"resourceIdentifier":{"Group":"","Resource":"persistentvolumeclaims","Namespace":"shop","Name":"db"},"operationID":"du-1",` +
		`"postOperationItems":[{"Group":"velero.io","Resource":"datauploads","Namespace":"velero","Name":"du-1"}]},` +
		`"status":{"phase":"Failed","error":"disk full","nCompleted":5,"nTotal":10,"operationUnits":"bytes","description":"moving",` +
		`"created":"2026-03-04T12:00:00Z","started":"2026-03-04T12:00:01Z","updated":"2026-03-04T12:00:02Z"}},` +
		`{"spec":{"backupName":"nightly","backupUID":"u-1","backupItemAction":"velero.io/csi",` +
		`"resourceIdentifier":{"Group":"","Resource":"persistentvolumeclaims","Namespace":"shop","Name":"web"},"operationID":"du-2",` +
		`"postOperationItems":null},"status":{"phase":"New","created":"2026-03-04T12:00:00Z"}}]`
	restoreFile = `[{"spec":{"restoreName":"again","restoreUID":"u-2","restoreItemAction":"velero.io/csi",` +
		`"resourceIdentifier":{"Group":"","Resource":"persistentvolumeclaims","Namespace":"shop","Name":"db"},"operationID":"dd-1"},` +
		`"status":{"phase":"InProgress","created":"2026-03-04T12:00:00Z","started":"2026-03-04T12:00:01Z"}}]`
)

func second(n int) time.Time { return time.Date(2026, 3, 4, 12, 0, n, 0, time.UTC) }

func TestLastLinesInAFileAreCut(t *testing.T) {
	t.Parallel()
	var file operation.File
	content := strings.Replace(backupFile, `"error":"disk full"`, `"error":"disk full","lastLines":"`+
		strings.Repeat(`x\n`, 100)+`"`, 1)
	require.NoError(t, json.Unmarshal([]byte(content), &file))
	all, err := file.Operations(&operation.Owner{Kind: operation.OfBackup, Name: "nightly", UID: "u-1"})
	require.NoError(t, err)
	require.Equal(t, "..."+strings.Repeat("\nx", 20), all[0].LastLines)
}

func TestFileIsVeleros(t *testing.T) {
	t.Parallel()
	for kind, test := range map[string]struct {
		owner      operation.Owner
		operations []operation.Operation
		file       string
	}{
		operation.OfBackup: {
			operation.Owner{Kind: operation.OfBackup, Name: "nightly", UID: "u-1"},
			[]operation.Operation{{
				Action: "velero.io/csi", ID: "du-1", Item: pvc("db"), Created: second(0),
				PostOperationItems: []framework.ResourceIdentifier{{Group: "velero.io", Resource: "datauploads",
					Namespace: "velero", Name: "du-1"}},
				Status: operation.Status{
					Phase: operation.Failed, Error: "disk full", NCompleted: 5, NTotal: 10, Units: "bytes", Description: "moving",
					Started: second(1), Updated: second(2),
				},
			}, {
				Action: "velero.io/csi", ID: "du-2", Item: pvc("web"), Created: second(0), Status: operation.Status{
					Phase: operation.New,
				},
			}}, backupFile,
		},
		operation.OfRestore: {
			operation.Owner{Kind: operation.OfRestore, Name: "again", UID: "u-2"},
			[]operation.Operation{{
				Action: "velero.io/csi", ID: "dd-1", Item: pvc("db"), Created: second(0),
				Status: operation.Status{Phase: operation.InProgress, Started: second(1)},
			}}, restoreFile,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			encoded, err := json.Marshal(operation.NewFile(&test.owner, test.operations))
			require.NoError(t, err)
			require.Equal(t, test.file, string(encoded))
			require.Equal(t, test.operations, decode(t, test.file, &test.owner))
			test.owner.UID = ""
			require.Equal(t, test.operations, decode(t, test.file, &test.owner), "of an owner whose UID has changed")
		})
	}
	encoded, err := json.Marshal(operation.NewFile(&operation.Owner{Kind: operation.OfBackup}, nil))
	require.NoError(t, err)
	require.Equal(t, "[]", string(encoded))
}

func decode(t *testing.T, content string, owner *operation.Owner) []operation.Operation {
	t.Helper()
	var file operation.File
	require.NoError(t, json.Unmarshal([]byte(content), &file))
	operations, err := file.Operations(owner)
	require.NoError(t, err)
	return operations
}

func TestFileOfTheFutureIsRead(t *testing.T) {
	t.Parallel()
	owner := &operation.Owner{Kind: operation.OfRestore, Name: "again", UID: "u-2"}
	future := strings.NewReplacer(`"spec":{`, `"version":2,"spec":{"priority":7,`, `"status":{`,
		`"status":{"rate":1.5,`).Replace(restoreFile)
	require.NotEqual(t, restoreFile, future)
	require.Equal(t, decode(t, restoreFile, owner), decode(t, future, owner))
}

func TestInvalidOperationsOfAFileAreNamed(t *testing.T) {
	t.Parallel()
	owner := &operation.Owner{Kind: operation.OfBackup, Name: "nightly", UID: "u-1"}
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown phase": {`"phase":"New"`, `"phase":"Paused"`,
			`operation 2 of 2 is invalid: du-2 of velero.io/csi has phase "Paused", want New, InProgress, Completed or Failed`},
		"no phase": {`"phase":"New",`, ``,
			`operation 2 of 2 is invalid: du-2 of velero.io/csi has phase "", want New, InProgress, Completed or Failed`},
		"no id": {`"operationID":"du-2"`, `"operationID":""`,
			`operation 2 of 2 is invalid: velero.io/csi has no operationID`},
		"no item": {`"Namespace":"shop","Name":"web"`, `"Namespace":"shop"`,
			`operation 2 of 2 is invalid: du-2 of velero.io/csi has no resource or no name of an item: "persistentvolumeclaims/shop/"`},
		"nothing": {`},{"spec"`, `},null,{"spec"`, `operation 2 of 3 is invalid: it names no action`},
		"of another": {`"backupUID":"u-1","backupItemAction":"velero.io/csi","resourceIdentifier":{"Group":"","Resource":"persistentvolumeclaims","Namespace":"shop","Name":"web"}`,
			`"backupUID":"u-7","backupItemAction":"velero.io/csi","resourceIdentifier":{"Group":"","Resource":"persistentvolumeclaims","Namespace":"shop","Name":"web"}`,
			`operation 2 of 2 is invalid: du-2 of velero.io/csi belongs to Backup "nightly" (uid "u-7"), want "nightly" (uid "u-1")`},
		"of a restore": {`},{"spec":{`, `},` + restoreFile[1:len(restoreFile)-1] + `,{"spec":{`,
			`operation 2 of 3 is invalid: action velero.io/csi is not one of a Backup`},
		"twice": {`"Name":"web"},"operationID":"du-2"`, `"Name":"db"},"operationID":"du-1"`,
			`operation 2 of 2 is invalid: it is the same as number 1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(backupFile, test.old, test.new, 1)
			require.NotEqual(t, backupFile, changed)
			var file operation.File
			require.NoError(t, json.Unmarshal([]byte(changed), &file))
			valid, err := file.Operations(owner)
			require.EqualError(t, err, test.want)
			require.Equal(t, "du-1", valid[0].ID, "the others are there")
		})
	}

	_, err := make(operation.File, 20).Operations(owner)
	require.ErrorContains(t, err, "operation 5 of 20 is invalid: it names no action\nand 15 more")
}

// FuzzFile checks that operations of any file can be written and read again.
func FuzzFile(f *testing.F) {
	f.Add([]byte(backupFile), false)
	f.Add([]byte(restoreFile), true)
	f.Add([]byte(`[null,{"spec":{"backupName":"nightly","backupUID":"u-1"}}]`), false)
	f.Fuzz(func(t *testing.T, content []byte, restore bool) {
		owner := &operation.Owner{Kind: operation.OfBackup, Name: "nightly", UID: "u-1"}
		if restore {
			owner = &operation.Owner{Kind: operation.OfRestore, Name: "again", UID: "u-2"}
		}
		var file operation.File
		if json.Unmarshal(content, &file) != nil {
			return
		}
		operations, _ := file.Operations(owner)
		encoded, err := json.Marshal(operation.NewFile(owner, operations))
		if err != nil {
			return // a time that has no JSON
		}
		var again operation.File
		require.NoError(t, json.Unmarshal(encoded, &again))
		read, err := again.Operations(owner)
		require.NoError(t, err)
		require.Len(t, read, len(operations))
		reencoded, err := json.Marshal(operation.NewFile(owner, read))
		require.NoError(t, err)
		require.Equal(t, string(encoded), string(reencoded))
	})
}
