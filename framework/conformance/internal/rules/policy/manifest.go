package policy

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func manifestPolicy() calls {
	return calls{
		asked: func(s *policy, config []byte) []proto.Message {
			return []proto.Message{begin(s.Name, config, sample.Encode(sample.Backup(sample.UsualOwner)))}
		},
		newer: func(s *policy, config []byte) proto.Message {
			message := wire.WithUnknown(begin(s.Name, config, sample.Encode(sample.Backup(sample.UsualOwner))))
			wire.WithUnknown(message.GetBegin())
			return message
		},
		decide: func(ctx context.Context, s *policy, request proto.Message) (proto.Message, error) {
			first, ok := request.(*manifestwriterv1.WriteRequest)
			if !ok {
				return nil, fmt.Errorf("%T is not a beginning", request)
			}
			_, err := s.write(ctx, []*manifestwriterv1.WriteRequest{first,
				itemsMessage(wire.WithUnknown(manifestItem("first")))}, 0)
			return nil, err
		},
	}
}

// manifestStream is one call of Write.
type manifestStream = grpc.BidiStreamingClient[manifestwriterv1.WriteRequest, manifestwriterv1.WriteResponse]

// described is the answer of a ManifestWriter.
type described struct {
	messages []*manifestwriterv1.WriteResponse
	early    bool // the call ended without an error before the host had closed its side
}

// bytes returns the content of all artifacts.
func (d *described) bytes() []byte {
	var all []byte
	for _, message := range d.messages {
		all = append(all, message.GetContent()...)
	}
	return all
}

func begin(plugin string, config []byte, backup []byte) *manifestwriterv1.WriteRequest {
	return &manifestwriterv1.WriteRequest{Part: &manifestwriterv1.WriteRequest_Begin{
		Begin: &manifestwriterv1.Begin{Plugin: plugin, Config: config, Backup: backup},
	}}
}

func itemsMessage(items ...*manifestwriterv1.Item) *manifestwriterv1.WriteRequest {
	return &manifestwriterv1.WriteRequest{
		Part: &manifestwriterv1.WriteRequest_Items{Items: &manifestwriterv1.Items{Items: items}},
	}
}

func manifestItem(name string) *manifestwriterv1.Item {
	return &manifestwriterv1.Item{
		Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: "conformance", Name: name, Uid: "uid-" + name,
		Labels: map[string]string{"app": name}, Annotations: map[string]string{"note": name},
	}
}

// someItems returns items of all sorts.
func someItems() []*manifestwriterv1.Item {
	owned := manifestItem("owned")
	owned.Owners = []*manifestwriterv1.Owner{{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "gone", Uid: "uid-gone",
		Controller: true}}
	owned.Related = []*shared.ResourceIdentifier{{Resource: "secrets", Namespace: "conformance", Name: "gone"}}
	owned.References = []*manifestwriterv1.Reference{
		{Type: "reference", Strict: true, To: &manifestwriterv1.ObjectReference{Kind: "Secret", Namespace: "conformance",
			Name: "gone"}, Path: "spec.keys[0].secretName"},
		{Type: "action", To: &manifestwriterv1.ObjectReference{Resource: "secrets", Namespace: "conformance", Name: "gone"},
			Plugin: "example.io/keys"},
		{},
	}
	owned.Included = &manifestwriterv1.Inclusion{By: "action", Plugin: "example.io/keys",
		Of: &manifestwriterv1.ObjectReference{Resource: "nodes", Name: "bare"}}
	bare := &manifestwriterv1.Item{Version: "v1", Resource: "nodes", Kind: "Node", Name: "bare"}
	return []*manifestwriterv1.Item{
		manifestItem("first"), owned, bare, manifestItem("first"),
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Kind: "ClusterRole",
			Name: "system:odd \"name\" <b>&ü"},
	}
}

// write makes one call that describes a backup, with a pause before the host closes its side.
func (s *policy) write(
	ctx context.Context, messages []*manifestwriterv1.WriteRequest, pause time.Duration,
) (*described, error) {
	conn, err := s.Conn(ctx)
	if err != nil {
		return nil, err
	}
	got := &described{}
	err = s.Stream(ctx, func(ctx context.Context, moved func()) error {
		stream, err := manifestwriterv1.NewManifestWriterServiceClient(conn).Write(ctx)
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- got.receive(stream, moved) }()
		for _, message := range messages {
			if stream.Send(message) != nil {
				break // Recv returns the error
			}
			moved()
		}
		if pause > 0 {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			select {
			case err := <-ended:
				got.early = err == nil
				return err
			case <-timer.C:
			}
		}
		_ = stream.CloseSend()
		return <-ended
	})
	return got, err
}

func (d *described) receive(stream manifestStream, moved func()) error {
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		moved()
		d.messages = append(d.messages, message)
	}
}

// description asks the writer to describe items.
func (s *policy) description(
	ctx context.Context, config []byte, backupName string, items []*manifestwriterv1.Item,
) (*described, error) {
	messages := []*manifestwriterv1.WriteRequest{begin(s.Name, config, sample.Encode(sample.Backup(backupName)))}
	for some := range slices.Chunk(items, 100) {
		messages = append(messages, itemsMessage(some...))
	}
	return s.write(ctx, messages, 0)
}

// usualDescription returns the description of items of all sorts.
func (s *policy) usualDescription(ctx context.Context) (*described, error) {
	config, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return s.description(ctx, config, sample.UsualOwner, someItems())
}

// needsDescription skips a rule if the writer does not describe a backup.
func (s *policy) needsDescription(ctx context.Context) (*described, error) {
	got, err := s.usualDescription(ctx)
	if err != nil {
		return nil, suite.Skip("a backup is not described: %v", err)
	}
	return got, nil
}
