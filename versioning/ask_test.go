package versioning_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/cleat-dev/cleat/versioning"
)

func TestReplyIsConvertedOnce(t *testing.T) {
	t.Parallel()
	plugin := versioning.NewPlugin("ItemWeigher", "example.io/scales")
	for name, judges := range map[string]bool{"the connection judges": true, "only the facade judges": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var judged error
			call := func(_ context.Context, request *wrapperspb.Int64Value, opts ...grpc.CallOption) (*wrapperspb.Int64Value,
				error) {
				if request.GetValue() < 0 {
					return nil, errors.New("less than nothing")
				}
				answer := wrapperspb.Int64(2 * request.GetValue())
				if judges {
					if judged = versioning.Judge(answer, append([]grpc.CallOption{grpc.StaticMethod()}, opts...)); judged != nil {
						return nil, judged
					}
				}
				return answer, nil
			}
			converted := 0
			ask := func(weight int64) (int64, error) {
				converted = 0
				return versioning.Ask(t.Context(), plugin, call, wrapperspb.Int64(weight),
					func(answer *wrapperspb.Int64Value) (int64, error) {
						converted++
						if answer.GetValue() > 10 {
							return answer.GetValue(), errors.New("it weighs too much")
						}
						return answer.GetValue(), nil
					})
			}

			result, err := ask(4)
			require.NoError(t, err)
			require.EqualValues(t, 8, result)
			require.Equal(t, 1, converted)

			result, err = ask(6)
			require.EqualError(t, err, "ItemWeigher(example.io/scales): invalid reply: it weighs too much")
			require.ErrorIs(t, err, versioning.ErrInvalidReply)
			require.Zero(t, result, "a rejected result is not returned")
			require.Equal(t, 1, converted)
			require.Equal(t, judges, judged != nil)

			_, err = ask(-1)
			require.EqualError(t, err, "ItemWeigher(example.io/scales): less than nothing")
			require.Zero(t, converted)
		})
	}
	require.NoError(t, versioning.Judge(wrapperspb.Int64(1), []grpc.CallOption{grpc.StaticMethod()}),
		"a call without a judge")
}
