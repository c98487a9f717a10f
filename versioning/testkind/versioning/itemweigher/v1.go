package itemweigher

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
	weigherv1 "github.com/cleat-dev/cleat/versioning/testkind/framework/itemweigher/v1"
	itemweigherv1 "github.com/cleat-dev/cleat/versioning/testkind/proto/itemweigher/v1"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Weigher] {
	return versioning.NewVersion(weigherv1.Kind(), newV1, versioning.Calls{
		itemweigherv1.ItemWeigherService_Weigh_FullMethodName: {Class: versioning.Execute},
	}).Deprecate("ItemWeigher version 1 goes away, use version 3")
}

// newV1 returns the facade of p, which weighs one item at a time and is never exact.
func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Weigher {
	return v1{p, itemweigherv1.NewItemWeigherServiceClient(conn)}
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
