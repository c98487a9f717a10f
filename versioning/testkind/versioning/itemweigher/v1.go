package itemweigher

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
	itemweigherv1 "github.com/cleat-dev/cleat/versioning/testkind/proto/itemweigher/v1"
)

// V1 is version 1 of the kind.
func V1() versioning.Version[Weigher] {
	return versioning.Version[Weigher]{
		Wire: "ItemWeigher", Number: 1, Probe: itemweigherv1.ItemWeigherService_Weigh_FullMethodName, Bind: newV1,
		Calls:      versioning.Calls{itemweigherv1.ItemWeigherService_Weigh_FullMethodName: {Class: versioning.Execute}},
		Deprecated: "ItemWeigher version 1 goes away, use version 3",
	}
}

// newV1 returns the weigher announced as name in the plugin that conn reaches, at version 1 of the kind: it weighs one
// item at a time, and is never exact.
func newV1(conn grpc.ClientConnInterface, name string) Weigher {
	return v1{
		Plugin: versioning.NewPlugin("ItemWeigher", name),
		client: itemweigherv1.NewItemWeigherServiceClient(conn),
	}
}

type v1 struct {
	versioning.Plugin
	client itemweigherv1.ItemWeigherServiceClient
}

func (w v1) Weigh(ctx context.Context, items [][]byte, _ []byte) ([]Weight, error) {
	weights := make([]Weight, 0, len(items))
	for i, item := range items {
		request := &itemweigherv1.WeighRequest{Plugin: w.Name(), Item: item}
		weight, err := versioning.Ask(ctx, w.Plugin, w.client.Weigh, request,
			func(answer *itemweigherv1.WeighResponse) (Weight, error) {
				if kibibytes := answer.GetKibibytes(); kibibytes > heaviest/1024 {
					return Weight{}, fmt.Errorf("items[%d] weighs %d KiB, want at most %d", i, kibibytes, int64(heaviest/1024))
				}
				weight := Weight{Bytes: answer.GetKibibytes() * 1024}
				return weight, weight.validate(i)
			})
		if err != nil {
			return nil, err
		}
		weights = append(weights, weight)
	}
	return weights, nil
}
