package v1

import (
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	"github.com/cleat-dev/cleat/framework/manifest"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[ManifestWriter] {
	return hostapi.Kind[ManifestWriter]{
		KindVersion: hostapi.KindVersion{
			Wire: "ManifestWriter", Probe: manifestwriterv1.ManifestWriterService_Write_FullMethodName,
			Policy: true,
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[ManifestWriter]) {
	manifestwriterv1.RegisterManifestWriterServiceServer(registrar, &server{handlers: handlers})
}

// server puts the writers of a process on the wire.
type server struct {
	manifestwriterv1.UnimplementedManifestWriterServiceServer
	handlers *glue.Handlers[ManifestWriter]
	backups  wire.Decoded[velerov1.Backup, *velerov1.Backup]
}

func (s *server) Write(
	stream grpc.BidiStreamingServer[manifestwriterv1.WriteRequest, manifestwriterv1.WriteResponse],
) error {
	first, err := stream.Recv()
	if err != nil && err != io.EOF {
		return err
	}
	begin := first.GetBegin()
	if begin == nil {
		return errors.New("the first message must say which backup begins")
	}
	writer, err := s.handlers.UseWith(stream.Context(), begin.GetPlugin(), begin.GetConfig())
	if err != nil {
		return err
	}
	defer writer.Release()
	backup, err := s.backups.Get("backup", begin.GetBackup())
	if err != nil {
		return err
	}
	items := &received{receive: stream.Recv}
	out := &output{send: stream.Send}
	if err := writer.Handler.Write(stream.Context(), &WriteInput{Backup: backup, Items: items.all,
		Artifacts: out}); err != nil {
		return err
	}
	if err := items.atEnd(); err != nil {
		return err
	}
	return out.complete()
}

// errStoppedEarly is the error of a writer that returns nil without having seen all items.
var errStoppedEarly = errors.New("Write returned without an error before it had seen all items") //nolint:staticcheck // the method's name

// received are the items of one call.
type received struct {
	receive func() (*manifestwriterv1.WriteRequest, error)
	rest    []*manifestwriterv1.Item // of the message received last
	err     error                    // how they ended
}

// all yields the items that are still to come.
func (r *received) all(yield func(*Item, error) bool) {
	for {
		item, err := r.next()
		if err == io.EOF {
			return
		}
		if !yield(item, err) || err != nil {
			return
		}
	}
}

func (r *received) next() (*Item, error) {
	if r.err != nil {
		return nil, r.err
	}
	if len(r.rest) == 0 {
		message, err := r.receive()
		r.rest = message.GetItems().GetItems()
		if err == nil && len(r.rest) == 0 {
			err = errors.New("a message after the first must have items")
		}
		if err != nil {
			r.err = err
			return nil, err
		}
	}
	next := item(r.rest[0])
	r.rest = r.rest[1:]
	return next, nil
}

// atEnd returns an error unless all items were seen. A writer may have stopped after the last one.
func (r *received) atEnd() error {
	switch _, err := r.next(); err {
	case nil:
		return errStoppedEarly
	case io.EOF:
		return nil
	default:
		return err
	}
}

func item(sent *manifestwriterv1.Item) *Item {
	received := &Item{
		Group:       sent.GetGroup(),
		Version:     sent.GetVersion(),
		Resource:    sent.GetResource(),
		Kind:        sent.GetKind(),
		Namespace:   sent.GetNamespace(),
		Name:        sent.GetName(),
		UID:         sent.GetUid(),
		Labels:      sent.GetLabels(),
		Annotations: sent.GetAnnotations(),
		Related:     wire.Received(sent.GetRelated()),
		Object:      sent.GetObject(),
		Included:    manifest.Inclusion{By: sent.GetIncluded().GetBy(), Plugin: sent.GetIncluded().GetPlugin()},
	}
	if of := sent.GetIncluded().GetOf(); of != nil {
		of := ref(of)
		received.Included.Of = &of
	}
	received.References = slices.Grow(received.References, len(sent.GetReferences()))
	for _, r := range sent.GetReferences() {
		received.References = append(received.References, manifest.Edge{
			Type: manifest.EdgeType(r.GetType()), Strict: r.GetStrict(), To: ref(r.GetTo()), Path: r.GetPath(),
			Plugin: r.GetPlugin(),
		})
	}
	for _, owner := range sent.GetOwners() {
		received.Owners = append(received.Owners, Owner{
			APIVersion: owner.GetApiVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUid(),
			Controller: owner.GetController(),
		})
	}
	return received
}

func ref(sent *manifestwriterv1.ObjectReference) manifest.Ref {
	return manifest.Ref{
		Group: sent.GetGroup(), Resource: sent.GetResource(), Kind: sent.GetKind(),
		Namespace: sent.GetNamespace(), Name: sent.GetName(), UID: sent.GetUid(),
	}
}
