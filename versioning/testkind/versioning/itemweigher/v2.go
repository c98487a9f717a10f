package itemweigher

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
	itemweigherv2 "github.com/cleat-dev/cleat/versioning/testkind/proto/itemweigher/v2"
)

// V2 is version 2 of the kind.
func V2() versioning.Version[Weigher] {
	return versioning.Version[Weigher]{
		Wire: "ItemWeigherV2", Number: 2, Probe: itemweigherv2.ItemWeigherService_Weigh_FullMethodName, Bind: newV2,
		Calls: versioning.Calls{itemweigherv2.ItemWeigherService_Weigh_FullMethodName: {Class: versioning.Execute}},
	}
}

// newV2 returns the weigher announced as name in the plugin that conn reaches, at version 2 of the kind: it weighs one
// item at a time.
func newV2(conn grpc.ClientConnInterface, name string) Weigher {
	return v2{
		Plugin: versioning.NewPlugin("ItemWeigher", name),
		client: itemweigherv2.NewItemWeigherServiceClient(conn),
	}
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
