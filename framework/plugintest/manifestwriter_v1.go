package plugintest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/internal/wire"
	"github.com/cleat-dev/cleat/framework/manifest"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
)

// ManifestWriterV1 returns the writer that is registered as name.
func (p *Plugin) ManifestWriterV1(name string, options ...Option) mwv1.ManifestWriter {
	p.t.Helper()
	return manifestWriterV1{p.target(mwv1.Kind().KindVersion, name), p.json(chosen(options).config),
		manifestwriterv1.NewManifestWriterServiceClient(p.conn)}
}

// Items returns items as the input of a ManifestWriter.
func Items(items ...*mwv1.Item) iter.Seq2[*mwv1.Item, error] {
	return func(yield func(*mwv1.Item, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Artifacts collects the files of a ManifestWriter, by name. It implements mwv1.Artifacts; create it with Artifacts{}.
type Artifacts map[string]*bytes.Buffer

// Create implements mwv1.Artifacts.
func (a Artifacts) Create(name string) (io.Writer, error) {
	if a[name] != nil {
		return nil, fmt.Errorf("artifact %s is there twice", name)
	}
	a[name] = &bytes.Buffer{}
	return a[name], nil
}

type manifestWriterV1 struct {
	target
	config []byte
	client manifestwriterv1.ManifestWriterServiceClient
}

// Write sends the items and then writes the received artifacts. An error of the items cancels the call, as when a host
// abandons a backup.
func (w manifestWriterV1) Write(ctx context.Context, input *mwv1.WriteInput) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.client.Write(ctx)
	if err != nil {
		return w.wrap(err)
	}
	received := make(chan answered, 1)
	go func() { received <- receiveArtifacts(stream) }()
	sendErr := w.send(stream, input)
	if sendErr != nil && sendErr != io.EOF {
		cancel()
		<-received
		return sendErr
	}
	answer := <-received
	if answer.err != nil {
		return w.wrap(answer.err)
	}
	if sendErr == io.EOF {
		return w.wrap(fmt.Errorf("the plugin ended the manifest before it received all items"))
	}
	for _, artifact := range answer.artifacts {
		writer, err := input.Artifacts.Create(artifact.name)
		if err != nil {
			return err
		}
		if _, err := writer.Write(slices.Concat(artifact.pieces...)); err != nil {
			return err
		}
	}
	return nil
}

type manifestStream = grpc.BidiStreamingClient[manifestwriterv1.WriteRequest, manifestwriterv1.WriteResponse]

// send sends the backup and its items. The error is io.EOF if the plugin has ended the call, whose error gives the
// reason.
func (w manifestWriterV1) send(stream manifestStream, input *mwv1.WriteInput) error {
	begin := &manifestwriterv1.Begin{Plugin: w.name, Config: w.config, Backup: encode(input.Backup)}
	err := stream.Send(&manifestwriterv1.WriteRequest{Part: &manifestwriterv1.WriteRequest_Begin{Begin: begin}})
	if err != nil {
		return err
	}
	if input.Items != nil {
		for item, err := range input.Items {
			if err != nil {
				return err
			}
			if err := stream.Send(&manifestwriterv1.WriteRequest{Part: &manifestwriterv1.WriteRequest_Items{
				Items: &manifestwriterv1.Items{Items: []*manifestwriterv1.Item{sentItem(item)}},
			}}); err != nil {
				return err
			}
		}
	}
	return stream.CloseSend()
}

func sentItem(item *mwv1.Item) *manifestwriterv1.Item {
	sent := &manifestwriterv1.Item{
		Group:       item.Group,
		Version:     item.Version,
		Resource:    item.Resource,
		Kind:        item.Kind,
		Namespace:   item.Namespace,
		Name:        item.Name,
		Uid:         item.UID,
		Labels:      item.Labels,
		Annotations: item.Annotations,
		Related:     wire.Identifiers(item.Related),
		Object:      item.Object,
	}
	for _, owner := range item.Owners {
		sent.Owners = append(sent.Owners, &manifestwriterv1.Owner{
			ApiVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, Uid: owner.UID, Controller: owner.Controller,
		})
	}
	for _, edge := range item.References {
		sent.References = append(sent.References, &manifestwriterv1.Reference{
			Type: string(edge.Type), Strict: edge.Strict, To: sentRef(edge.To), Path: edge.Path, Plugin: edge.Plugin,
		})
	}
	if included := item.Included; included.By != "" {
		sent.Included = &manifestwriterv1.Inclusion{By: included.By, Plugin: included.Plugin}
		if included.Of != nil {
			sent.Included.Of = sentRef(*included.Of)
		}
	}
	return sent
}

func sentRef(to manifest.Ref) *manifestwriterv1.ObjectReference {
	return &manifestwriterv1.ObjectReference{
		Group: to.Group, Resource: to.Resource, Kind: to.Kind, Namespace: to.Namespace, Name: to.Name, Uid: to.UID,
	}
}

// answered is all that a writer has sent, and the error of the call.
type answered struct {
	artifacts []artifact
	err       error
}

type artifact struct {
	name   string
	pieces [][]byte
}

func receiveArtifacts(stream manifestStream) (all answered) {
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			return all
		}
		if err != nil {
			all.err = err
			return all
		}
		if begun := message.GetArtifact(); begun != nil {
			all.artifacts = append(all.artifacts, artifact{name: begun.GetName()})
			continue
		}
		if len(all.artifacts) == 0 {
			all.err = fmt.Errorf("there is content before the first artifact")
			return all
		}
		last := &all.artifacts[len(all.artifacts)-1]
		last.pieces = append(last.pieces, message.GetContent())
	}
}
