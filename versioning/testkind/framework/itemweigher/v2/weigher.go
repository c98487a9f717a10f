// Package v2 is the kind ItemWeigher in its version 2: one item at a time, in bytes, guessed or exact, with the Backup
// that it is for. The author's interface comes first; below it stands what puts it on the wire.
package v2

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	itemweigherv2 "github.com/cleat-dev/cleat/versioning/testkind/proto/itemweigher/v2"
)

// ItemWeigher is the interface that an author implements. One value serves all calls of a process, concurrently. ctx
// ends at the server's deadline for the call, or when the backup is cancelled.
type ItemWeigher interface {
	// Weigh returns the size of item in backup. It changes nothing: the server may ask again.
	Weigh(ctx context.Context, item *unstructured.Unstructured, backup *velerov1.Backup) (Weight, error)
}

// Weight is the size of one item.
type Weight struct {
	// Bytes is not negative.
	Bytes int64
	// Exact is true if it was measured, not estimated.
	Exact bool
}

// Register registers the weigher that newWeigher makes under name, "example.io/weigher". newWeigher is called at the
// first call for name; its logger writes to the log of the running backup.
func Register(
	name string, newWeigher func(context.Context, *framework.Setup) (ItemWeigher, error),
) framework.Registration {
	return hostapi.Register(Kind(), name, newWeigher)
}

// Kind describes the kind at this version.
func Kind() hostapi.Kind[ItemWeigher] {
	return hostapi.Kind[ItemWeigher]{
		KindVersion: hostapi.KindVersion{
			Wire: "ItemWeigherV2", Probe: itemweigherv2.ItemWeigherService_Weigh_FullMethodName,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *hostapi.Handlers[ItemWeigher]) {
	itemweigherv2.RegisterItemWeigherServiceServer(registrar, &server{handlers: handlers})
}

// server serves the weighers of a process by gRPC.
type server struct {
	itemweigherv2.UnimplementedItemWeigherServiceServer
	handlers *hostapi.Handlers[ItemWeigher]
}

func (s *server) Weigh(ctx context.Context, req *itemweigherv2.WeighRequest) (*itemweigherv2.WeighResponse, error) {
	weigher, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer weigher.Release()
	item := &unstructured.Unstructured{}
	if err := item.UnmarshalJSON(req.GetItem()); err != nil {
		return nil, fmt.Errorf("decode item of the request: %w", err)
	}
	backup := &velerov1.Backup{}
	if err := json.Unmarshal(req.GetBackup(), backup); err != nil {
		return nil, fmt.Errorf("decode backup of the request: %w", err)
	}
	weight, err := weigher.Handler.Weigh(ctx, item, backup)
	if err != nil {
		return nil, err
	}
	return &itemweigherv2.WeighResponse{Bytes: weight.Bytes, Exact: weight.Exact}, nil
}
