// Package v1 is the kind ItemWeigher in its version 1: one item at a time, in kibibytes. The author's interface
// comes first, then its gRPC server.
package v1

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	itemweigherv1 "github.com/cleat-dev/cleat/versioning/testkind/proto/itemweigher/v1"
)

// ItemWeigher is the interface that an author implements. One value serves all calls of a process, concurrently. ctx
// ends at the server's deadline for the call, or when the backup is cancelled.
type ItemWeigher interface {
	// Weigh returns how much space item takes in a backup, in kibibytes, rounded up; not negative. It changes nothing:
	// the server may ask again.
	Weigh(ctx context.Context, item *unstructured.Unstructured) (kibibytes int64, err error)
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
			Wire: "ItemWeigher", Probe: itemweigherv1.ItemWeigherService_Weigh_FullMethodName,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *hostapi.Handlers[ItemWeigher]) {
	itemweigherv1.RegisterItemWeigherServiceServer(registrar, &server{handlers: handlers})
}

// server serves the weighers of a process by gRPC.
type server struct {
	itemweigherv1.UnimplementedItemWeigherServiceServer
	handlers *hostapi.Handlers[ItemWeigher]
}

func (s *server) Weigh(ctx context.Context, req *itemweigherv1.WeighRequest) (*itemweigherv1.WeighResponse, error) {
	weigher, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer weigher.Release()
	item := &unstructured.Unstructured{}
	if err := item.UnmarshalJSON(req.GetItem()); err != nil {
		return nil, fmt.Errorf("decode item of the request: %w", err)
	}
	kibibytes, err := weigher.Handler.Weigh(ctx, item)
	if err != nil {
		return nil, err
	}
	return &itemweigherv1.WeighResponse{Kibibytes: kibibytes}, nil
}
