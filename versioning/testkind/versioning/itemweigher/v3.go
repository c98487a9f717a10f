package itemweigher

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
	weigherv3 "github.com/cleat-dev/cleat/versioning/testkind/framework/itemweigher/v3"
	itemweigherv3 "github.com/cleat-dev/cleat/versioning/testkind/proto/itemweigher/v3"
)

// V3 describes version 3 of the kind.
func V3() versioning.Version[Weigher] {
	return versioning.NewVersion(weigherv3.Kind(), newV3, versioning.Calls{
		itemweigherv3.ItemWeigherService_Weigh_FullMethodName: {Class: versioning.Execute},
	})
}

func newV3(p versioning.Plugin, conn grpc.ClientConnInterface) Weigher {
	return v3{p, itemweigherv3.NewItemWeigherServiceClient(conn)}
}

type v3 struct {
	versioning.Plugin
	client itemweigherv3.ItemWeigherServiceClient
}

func (w v3) Weigh(ctx context.Context, items [][]byte, backup []byte) ([]Weight, error) {
	request := &itemweigherv3.WeighRequest{Plugin: w.Name(), Items: items, Backup: backup}
	return versioning.Ask(ctx, w.Plugin, w.client.Weigh, request, func(answer *itemweigherv3.WeighResponse) ([]Weight,
		error) {
		if len(answer.GetWeights()) != len(items) {
			return nil, fmt.Errorf("there are %d weights, want one for each of %d items", len(answer.GetWeights()), len(items))
		}
		weights := make([]Weight, 0, len(items))
		for i, sent := range answer.GetWeights() {
			weight := Weight{Bytes: sent.GetBytes(), Exact: sent.GetExact()}
			if err := weight.validate(i); err != nil {
				return nil, err
			}
			weights = append(weights, weight)
		}
		return weights, nil
	})
}
