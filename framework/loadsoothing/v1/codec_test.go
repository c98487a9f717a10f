package v1

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/internal/wiretest"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
)

func TestCodecKeepsEveryField(t *testing.T) {
	t.Parallel()
	request := wiretest.Filled[loadsoothingv1.AdmitRequest](t)
	again := EncodeInput(request.GetPlugin(), request.GetConfig(), decodeInput(request))
	require.True(t, proto.Equal(request, again), "%v\n%v", request, again)

	response := wiretest.Filled[loadsoothingv1.AdmitResponse](t)
	output, err := DecodeOutput(response)
	require.NoError(t, err)
	require.True(t, proto.Equal(response, encodeOutput(output)), "%v\n%v", response, encodeOutput(output))
}
