package v1

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/internal/wiretest"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

func TestCodecKeepsEveryField(t *testing.T) {
	t.Parallel()
	request := wiretest.Filled[queueadmissionv1.DecideRequest](t)
	again := EncodeInput(request.GetPlugin(), request.GetConfig(), DecodeInput(request))
	require.True(t, proto.Equal(request, again), "%v\n%v", request, again)

	response := wiretest.Filled[queueadmissionv1.DecideResponse](t)
	output, err := DecodeOutput(response)
	require.NoError(t, err)
	require.True(t, proto.Equal(response, encodeOutput(output)), "%v\n%v", response, encodeOutput(output))
}

func TestEveryClusterScopeIsSent(t *testing.T) {
	t.Parallel()
	for _, scope := range []ClusterScope{ClusterScopeNone, ClusterScopeRelated, ClusterScopeAll} {
		require.Equal(t, scope, decodeScope(encodeScope(scope)))
	}
	require.Equal(t, ClusterScopeAll, decodeScope(encodeScope("")), "an overlap is never missed")
}
