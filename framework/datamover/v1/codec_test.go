package v1

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/internal/wiretest"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
)

func TestCodecKeepsEveryField(t *testing.T) {
	t.Parallel()
	same := func(sent, again proto.Message) { require.True(t, proto.Equal(sent, again), "%v\n%v", sent, again) }

	backup := wiretest.Filled[datamoverv1.BackupRequest](t)
	same(backup, EncodeBackup(backup.GetPlugin(), decodeBackup(backup)))
	backupResult := wiretest.Filled[datamoverv1.BackupResult](t)
	backupOutput := DecodeBackup(backupResult)
	same(backupResult, encodeBackup(&backupOutput))

	restore := wiretest.Filled[datamoverv1.RestoreRequest](t)
	same(restore, EncodeRestore(restore.GetPlugin(), decodeRestore(restore)))
	restoreResult := wiretest.Filled[datamoverv1.RestoreResult](t)
	restoreOutput := DecodeRestore(restoreResult)
	same(restoreResult, encodeRestore(&restoreOutput))

	forget := wiretest.Filled[datamoverv1.ForgetRequest](t)
	same(forget, EncodeForget(forget.GetPlugin(), decodeForget(forget)))
	forgetResult := wiretest.Filled[datamoverv1.ForgetResult](t)
	forgetOutput := DecodeForget(forgetResult)
	same(forgetResult, encodeForget(&forgetOutput))

	maintain := wiretest.Filled[datamoverv1.MaintainRequest](t)
	same(maintain, EncodeMaintain(maintain.GetPlugin(), decodeMaintain(maintain)))
	maintainResult := wiretest.Filled[datamoverv1.MaintainResult](t)
	maintainOutput := DecodeMaintain(maintainResult)
	same(maintainResult, encodeMaintain(&maintainOutput))

	check := wiretest.Filled[datamoverv1.CheckRequest](t)
	same(check, EncodeCheck(check.GetPlugin(), decodeCheck(check)))
	checkResult := wiretest.Filled[datamoverv1.CheckResult](t)
	checkOutput := DecodeCheck(checkResult)
	same(checkResult, encodeCheck(&checkOutput))

	progress := wiretest.Filled[datamoverv1.Progress](t)
	same(progress, encodeProgress(DecodeProgress(progress)))
}

func TestEveryDepthIsSent(t *testing.T) {
	t.Parallel()
	for _, depth := range []Depth{Access, Structure, Data} {
		require.Equal(t, depth, decodeDepth(encodeDepth(depth)))
	}
}
