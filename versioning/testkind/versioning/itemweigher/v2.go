package itemweigher

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
	weigherv2 "github.com/cleat-dev/cleat/versioning/testkind/framework/itemweigher/v2"
	itemweigherv2 "github.com/cleat-dev/cleat/versioning/testkind/proto/itemweigher/v2"
)

// V2 describes version 2 of the kind.
func V2() versioning.Version[Weigher] {
	return versioning.NewVersion(weigherv2.Kind(), newV2, versioning.Calls{
		itemweigherv2.ItemWeigherService_Weigh_FullMethodName: {Class: versioning.Execute},
	})
}

// newV2 returns the facade of p, which weighs one item at a time.
func newV2(p versioning.Plugin, conn grpc.ClientConnInterface) Weigher {
	return v2{p, itemweigherv2.NewItemWeigherServiceClient(conn)}
}

type v2 struct {
	versioning.Plugin
	client itemweigherv2.ItemWeigherServiceClient
}

func (w v2) Weigh(ctx context.Context, items [][]byte, backup []byte) ([]Weight, error) {
	weights := make([]Weight, 0, len(items))
	for i, item := range items {
		request := &itemweigherv2.WeighRequest{Plugin: w.Name(), Item: item, Backup: backup}
		weight, err := versioning.Ask(ctx, w.Plugin, w.client.Weigh, request,
			func(answer *itemweigherv2.WeighResponse) (Weight, error) {
				weight := Weight{Bytes: answer.GetBytes(), Exact: answer.GetExact()}
				return weight, weight.validate(i)
			})
		if err != nil {
			return nil, err
		}
		weights = append(weights, weight)
	}
	return weights, nil
}
