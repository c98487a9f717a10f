package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func manifestRules() []Rule {
	kinds := []string{"ManifestWriter"}
	return []Rule{
		{
			ID: "manifest-empty", Kinds: kinds, Severity: Must, check: checkManifestEmpty,
			Text: "A backup without items is not an error. It may have no artifacts.",
		},
		{
			ID: "manifest-items", Kinds: kinds, Severity: Must, check: checkManifestItems,
			Text: "A backup of items of all sorts is described: cluster-scoped ones, ones without a uid, with owners that are not in the backup, and ones that come twice.",
		},
		{
			ID: "manifest-names", Kinds: kinds, Severity: Must, check: checkManifestNames,
			Text: `Names of artifacts have lower-case letters, digits, "-", "_" and ".", begin with a letter or digit, have at most 128 bytes, and come once.`,
		},
		{
			ID: "manifest-content-first", Kinds: kinds, Severity: Must, check: checkManifestContentFirst,
			Text: "Content comes after the artifact that it belongs to has begun.",
		},
		{
			ID: "manifest-reads-all", Kinds: kinds, Severity: Must, check: checkManifestReadsAll,
			Text: "A call does not end without an error before the host has closed its side, because items that were not read would be missing.",
		},
		{
			ID: "manifest-many", Kinds: kinds, Severity: Must, check: checkManifestMany,
			Text: "10,000 items are described like a few.",
		},
		{
			ID: "manifest-garbage", Kinds: kinds, Severity: Must, check: checkManifestGarbage,
			Text: "A call that does not start with begin, has two, or has a Backup that is not JSON, is an error. The process does not exit.",
		},
		{
			ID: "manifest-concurrent", Kinds: kinds, Severity: Must, check: checkManifestConcurrent,
			Text: "Concurrent calls describe their own backups: no artifact has items of another backup.",
		},
		{
			ID: "manifest-cancelled", Kinds: kinds, Severity: Must, check: checkManifestCancelled,
			Text: "A call that the host cancels does no harm: the next backup is described.",
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

func begin(plugin string, config []byte, backup []byte) *manifestwriterv1.WriteRequest {
	return &manifestwriterv1.WriteRequest{Part: &manifestwriterv1.WriteRequest_Begin{
		Begin: &manifestwriterv1.Begin{Plugin: plugin, Config: config, Backup: backup},
	}}
}

func itemMessage(item *manifestwriterv1.Item) *manifestwriterv1.WriteRequest {
	return &manifestwriterv1.WriteRequest{Part: &manifestwriterv1.WriteRequest_Item{Item: item}}
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
	owned.Owners = []*manifestwriterv1.Owner{{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "gone", Uid: "uid-gone", Controller: true}}
	owned.Related = []*shared.ResourceIdentifier{{Resource: "secrets", Namespace: "conformance", Name: "gone"}}
	bare := &manifestwriterv1.Item{Version: "v1", Resource: "nodes", Kind: "Node", Name: "bare"}
	return []*manifestwriterv1.Item{
		manifestItem("first"), owned, bare, manifestItem("first"),
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Kind: "ClusterRole", Name: "system:odd \"name\" <b>&ü"},
	}
}

// write makes one call that describes a backup, with a pause before the host closes its side.
func (s *subject) write(ctx context.Context, messages []*manifestwriterv1.WriteRequest, pause time.Duration) (*described, error) {
	conn, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	got := &described{}
	err = s.stream(ctx, func(ctx context.Context, moved func()) error {
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
func (s *subject) description(ctx context.Context, config []byte, backupName string, items []*manifestwriterv1.Item) (*described, error) {
	messages := []*manifestwriterv1.WriteRequest{begin(s.name, config, sample.Encode(sample.Backup(backupName)))}
	for _, item := range items {
		messages = append(messages, itemMessage(item))
	}
	return s.write(ctx, messages, 0)
}

func manifestPolicy() policy {
	return policy{
		asked: func(s *subject, config []byte) []proto.Message {
			return []proto.Message{begin(s.name, config, sample.Encode(sample.Backup(usualOwner)))}
		},
		newer: func(s *subject, config []byte) proto.Message {
			message := wire.WithUnknown(begin(s.name, config, sample.Encode(sample.Backup(usualOwner))))
			wire.WithUnknown(message.GetBegin())
			return message
		},
		decide: func(ctx context.Context, s *subject, request proto.Message) (proto.Message, error) {
			first, ok := request.(*manifestwriterv1.WriteRequest)
			if !ok {
				return nil, fmt.Errorf("%T is no beginning", request)
			}
			_, err := s.write(ctx, []*manifestwriterv1.WriteRequest{first, itemMessage(wire.WithUnknown(manifestItem("first")))}, 0)
			return nil, err
		},
	}
}

func checkManifestEmpty(ctx context.Context, s *subject) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	_, err = s.description(ctx, config, usualOwner, nil)
	return err
}

// usualDescription returns the description of items of all sorts.
func (s *subject) usualDescription(ctx context.Context) (*described, error) {
	config, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return s.description(ctx, config, usualOwner, someItems())
}

// needsDescription skips a rule if the writer does not describe a backup.
func (s *subject) needsDescription(ctx context.Context) (*described, error) {
	got, err := s.usualDescription(ctx)
	if err != nil {
		return nil, skip("a backup is not described: %v", err)
	}
	return got, nil
}

func checkManifestItems(ctx context.Context, s *subject) error {
	_, err := s.usualDescription(ctx)
	return err
}

var artifactName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

func checkManifestNames(ctx context.Context, s *subject) error {
	got, err := s.needsDescription(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, message := range got.messages {
		if message.GetArtifact() == nil {
			continue
		}
		name := message.GetArtifact().GetName()
		if !artifactName.MatchString(name) {
			return fmt.Errorf("an artifact is named %.200q", name)
		}
		if seen[name] {
			return fmt.Errorf("artifact %q comes twice", name)
		}
		seen[name] = true
	}
	return nil
}

func checkManifestContentFirst(ctx context.Context, s *subject) error {
	got, err := s.needsDescription(ctx)
	if err != nil {
		return err
	}
	for _, message := range got.messages {
		if message.GetArtifact() != nil {
			return nil
		}
		if len(message.GetContent()) > 0 {
			return fmt.Errorf("it begins with the content %s", sample.Brief(message.GetContent()))
		}
	}
	return nil
}

func checkManifestReadsAll(ctx context.Context, s *subject) error {
	began := time.Now()
	if _, err := s.needsDescription(ctx); err != nil {
		return err
	}
	// The pause gives a writer that does not read all items the time to end the call.
	early := min(max(500*time.Millisecond, 20*time.Since(began)), s.timeout/4)
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	messages := []*manifestwriterv1.WriteRequest{begin(s.name, config, sample.Encode(sample.Backup(usualOwner)))}
	for i := range 50 {
		messages = append(messages, itemMessage(manifestItem(fmt.Sprintf("item-%d", i))))
	}
	got, err := s.write(ctx, messages, early)
	if err != nil {
		return err
	}
	if got.early {
		return errors.New("it ends, and the host would have sent more items")
	}
	return nil
}

func checkManifestMany(ctx context.Context, s *subject) error {
	if _, err := s.needsDescription(ctx); err != nil {
		return err
	}
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	items := make([]*manifestwriterv1.Item, 10_000)
	for i := range items {
		items[i] = manifestItem(fmt.Sprintf("item-%d", i))
	}
	_, err = s.description(ctx, config, usualOwner, items)
	return err
}

func checkManifestGarbage(ctx context.Context, s *subject) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	good := begin(s.name, config, sample.Encode(sample.Backup(usualOwner)))
	for what, call := range map[string]struct {
		messages []*manifestwriterv1.WriteRequest
		lenient  bool // it may end without an error
	}{
		"a call without a message":        {messages: nil},
		"a call that begins with an item": {messages: []*manifestwriterv1.WriteRequest{itemMessage(manifestItem("first"))}},
		"a call that begins with nothing": {messages: []*manifestwriterv1.WriteRequest{{}}},
		"a call that begins twice":        {messages: []*manifestwriterv1.WriteRequest{good, good}},
		"a Backup that is no JSON":        {messages: []*manifestwriterv1.WriteRequest{begin(s.name, config, []byte(`{"metadata":[`))}, lenient: true},
		"a Backup that is not there":      {messages: []*manifestwriterv1.WriteRequest{begin(s.name, config, nil)}, lenient: true},
		"an item that is not there":       {messages: []*manifestwriterv1.WriteRequest{good, {}}, lenient: true},
	} {
		_, err := s.write(ctx, call.messages, 0)
		if hung(err) || panicked(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err == nil && !call.lenient {
			return fmt.Errorf("%s ends well", what)
		}
	}
	return nil
}

func checkManifestConcurrent(ctx context.Context, s *subject) error {
	if _, err := s.needsDescription(ctx); err != nil {
		return err
	}
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for i := range callers {
		group.Go(func() error {
			var items []*manifestwriterv1.Item
			for n := range 20 {
				items = append(items, manifestItem(fmt.Sprintf("%s-%d", caller(i), n)))
			}
			got, err := s.description(ctx, config, caller(i), items)
			if err != nil {
				return fmt.Errorf("%s: %w", caller(i), err)
			}
			for _, message := range got.messages {
				for other := range callers {
					if other != i && bytes.Contains(message.GetContent(), []byte(caller(other))) {
						return fmt.Errorf("the artifacts for %s have %s in them", caller(i), caller(other))
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func checkManifestCancelled(ctx context.Context, s *subject) error {
	if _, err := s.needsDescription(ctx); err != nil {
		return err
	}
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	conn, err := s.conn(ctx)
	if err != nil {
		return err
	}
	for i := range 16 {
		given, cancel := context.WithCancel(ctx)
		stream, err := manifestwriterv1.NewManifestWriterServiceClient(conn).Write(given)
		if err == nil {
			_ = stream.Send(begin(s.name, config, sample.Encode(sample.Backup(usualOwner))))
			for range i {
				_ = stream.Send(itemMessage(manifestItem("first")))
			}
		}
		time.Sleep(time.Duration(i) * time.Millisecond) // some calls are cancelled before they have begun
		cancel()
	}
	return settled(ctx, func() error {
		_, err := s.usualDescription(ctx)
		return err
	})
}
