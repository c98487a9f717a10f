package manifestwriter

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/manifest"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Writer] {
	return versioning.NewVersion(mwv1.Kind(), newV1, versioning.Calls{
		manifestwriterv1.ManifestWriterService_Write_FullMethodName: {Class: versioning.Execute, GivesAway: true},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Writer {
	return v1{Plugin: p, client: manifestwriterv1.NewManifestWriterServiceClient(conn)}
}

type v1 struct {
	versioning.Plugin
	client manifestwriterv1.ManifestWriterServiceClient
}

func (w v1) Begin(ctx context.Context, input Input, keep Keep) (Manifest, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stream, err := w.client.Write(ctx)
	if err != nil {
		cancel(nil)
		return nil, w.Wrap(err)
	}
	m := &manifestV1{Plugin: w.Plugin, stream: stream, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		m.err = m.receive(keep)
		cancel(m.err) // for a connection that records metrics: the reply was invalid
	}()
	begin := &manifestwriterv1.Begin{Plugin: w.Name(), Config: reply.Config(input.Config), Backup: input.Backup}
	err = m.send(&manifestwriterv1.WriteRequest{Part: &manifestwriterv1.WriteRequest_Begin{Begin: begin}})
	if err != nil {
		m.Abort()
		return nil, err
	}
	return m, nil
}

type manifestV1 struct {
	versioning.Plugin
	stream grpc.BidiStreamingClient[manifestwriterv1.WriteRequest, manifestwriterv1.WriteResponse]
	cancel context.CancelCauseFunc

	complete atomic.Bool   // all items have been sent to the plugin
	ended    chan struct{} // closed when the plugin's reply has ended and keep has returned
	err      error         // how it ended; read after ended is closed
}

var errEarlyEnd = errors.New("the plugin ended the manifest before it received all items")

// receive keeps the artifacts until the reply ends.
func (m *manifestV1) receive(keep Keep) error {
	incoming := &artifacts{receive: m.stream.Recv}
	if err := incoming.each(keep); err != nil {
		var broken *brokenRule
		if errors.As(err, &broken) {
			return m.Reject(err)
		}
		return m.Wrap(err)
	}
	if !m.complete.Load() {
		return m.Reject(errEarlyEnd)
	}
	return nil
}

// send sends a message. If the plugin no longer receives, the end of the reply has the reason.
func (m *manifestV1) send(message *manifestwriterv1.WriteRequest) error {
	err := m.stream.Send(message)
	if err == io.EOF {
		<-m.ended
		return m.err
	}
	return m.Wrap(err)
}

func (m *manifestV1) Add(items ...*Item) error {
	sent := make([]*manifestwriterv1.Item, len(items))
	together := make([]manifestwriterv1.Item, len(items)) // one allocation
	for i, item := range items {
		sent[i] = &together[i]
		fill(sent[i], item)
	}
	return m.send(&manifestwriterv1.WriteRequest{
		Part: &manifestwriterv1.WriteRequest_Items{Items: &manifestwriterv1.Items{Items: sent}},
	})
}

// fill converts an item to its message, which shares the item's maps.
func fill(sent *manifestwriterv1.Item, item *Item) {
	sent.Group, sent.Version, sent.Resource, sent.Kind = item.Group, item.Version, item.Resource, item.Kind
	sent.Namespace, sent.Name, sent.Uid = item.Namespace, item.Name, item.UID
	sent.Labels, sent.Annotations, sent.Object = item.Labels, item.Annotations, item.Object
	sent.Related = reply.Sent(item.Related)
	for _, owner := range item.Owners {
		sent.Owners = append(sent.Owners, &manifestwriterv1.Owner{
			ApiVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, Uid: owner.UID, Controller: owner.Controller,
		})
	}
	if n := len(item.References); n > 0 {
		sent.References = make([]*manifestwriterv1.Reference, n)
		together := make([]manifestwriterv1.Reference, n)
		for i := range item.References {
			edge, r := &item.References[i], &together[i]
			r.Type, r.Strict, r.To, r.Path, r.Plugin = string(edge.Type), edge.Strict, ref(edge.To), edge.Path, edge.Plugin
			sent.References[i] = r
		}
	}
	if included := item.Included; included.By != "" {
		sent.Included = &manifestwriterv1.Inclusion{By: included.By, Plugin: included.Plugin}
		if included.Of != nil {
			sent.Included.Of = ref(*included.Of)
		}
	}
}

func ref(to manifest.Ref) *manifestwriterv1.ObjectReference {
	return &manifestwriterv1.ObjectReference{
		Group: to.Group, Resource: to.Resource, Kind: to.Kind, Namespace: to.Namespace, Name: to.Name, Uid: to.UID,
	}
}

func (m *manifestV1) Finish() error {
	m.complete.Store(true)
	if err := m.stream.CloseSend(); err != nil {
		m.cancel(nil)
		<-m.ended
		return m.Wrap(err)
	}
	<-m.ended
	return m.err
}

func (m *manifestV1) Abort() {
	m.cancel(nil)
	<-m.ended
}
