package itemweigher

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
	itemweigherv2 "github.com/cleat-dev/cleat/versioning/testkind/proto/itemweigher/v2"
)

// NewV2 is the weigher announced as name in the plugin that conn reaches, at version 2 of the kind: it weighs one item at
// a time.
func NewV2(conn grpc.ClientConnInterface, name string) Weigher {
	return v2{
		Plugin: versioning.NewPlugin("ItemWeigher", name),
		client: itemweigherv2.NewItemWeigherServiceClient(conn),
	}
}

// CallsV2 declares the methods of the version.
func CallsV2() versioning.Calls {
	return versioning.Calls{itemweigherv2.ItemWeigherService_Weigh_FullMethodName: {Class: versioning.Execute}}
}

type v2 struct {
	versioning.Plugin
	client itemweigherv2.ItemWeigherServiceClient
}

func (w v2) Weigh(ctx context.Context, items [][]byte, backup []byte) ([]Weight, error) {
	weights := make([]Weight, 0, len(items))
	for i, item := range items {
		request := &itemweigherv2.WeighRequest{Plugin: w.Name(), Item: item, Backup: backup}
		weight, err := versioning.Ask(ctx, w.Plugin, w.client.Weigh, request, func(answer *itemweigherv2.WeighResponse) (Weight, error) {
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
