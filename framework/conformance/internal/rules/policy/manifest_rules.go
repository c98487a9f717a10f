package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
)

func manifestRules() []suite.Rule {
	kinds := []string{mwv1.Kind().Wire}
	return []suite.Rule{
		{
			ID: "manifest-empty", Kinds: kinds, Check: with(checkManifestEmpty),
			Text: "A backup without items is not an error. It may have no artifacts.",
		},
		{
			ID: "manifest-items", Kinds: kinds, Check: with(checkManifestItems),
			Text: "A backup of items of all sorts is described: cluster-scoped ones, ones without a uid, with owners that are " +
				"not in the backup, and ones that come twice.",
		},
		{
			ID: "manifest-names", Kinds: kinds, Check: with(checkManifestNames),
			Text: `Names of artifacts have lower-case letters, digits, "-", "_" and ".", begin with a letter or digit, have at most 128 bytes, and come once.`,
		},
		{
			ID: "manifest-content-first", Kinds: kinds, Check: with(checkManifestContentFirst),
			Text: "Content comes after the artifact that it belongs to has begun.",
		},
		{
			ID: "manifest-reads-all", Kinds: kinds, Check: with(checkManifestReadsAll),
			Text: "A call does not end without an error before the host has closed its side, because items that were not read " +
				"would be missing.",
		},
		{
			ID: "manifest-many", Kinds: kinds, Check: with(checkManifestMany),
			Text: "10,000 items are described like a few.",
		},
		{
			ID: "manifest-messages", Kinds: kinds, Check: with(checkManifestMessages),
			Text: "Items are described alike whether each has a message of its own or all come in one.",
		},
		{
			ID: "manifest-garbage", Kinds: kinds, Check: with(checkManifestGarbage),
			Text: "A call that does not start with begin, has two, or has a Backup that is not JSON, is an error. The process " +
				"does not exit.",
		},
		{
			ID: "manifest-concurrent", Kinds: kinds, Check: with(checkManifestConcurrent),
			Text: "Concurrent calls describe their own backups: no artifact has items of another backup.",
		},
		{
			ID: "manifest-cancelled", Kinds: kinds, Check: with(checkManifestCancelled),
			Text: "A call that the host cancels does no harm: the next backup is described.",
		},
	}
}

func checkManifestEmpty(ctx context.Context, s *policy) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	_, err = s.description(ctx, config, sample.UsualOwner, nil)
	return err
}

func checkManifestItems(ctx context.Context, s *policy) error {
	_, err := s.usualDescription(ctx)
	return err
}

var artifactName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

func checkManifestNames(ctx context.Context, s *policy) error {
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
			return fmt.Errorf("artifact %q is there twice", name)
		}
		seen[name] = true
	}
	return nil
}

func checkManifestContentFirst(ctx context.Context, s *policy) error {
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

func checkManifestReadsAll(ctx context.Context, s *policy) error {
	began := time.Now()
	if _, err := s.needsDescription(ctx); err != nil {
		return err
	}
	// The pause gives a writer that does not read all items the time to end the call.
	early := min(max(500*time.Millisecond, 20*time.Since(began)), s.Timeout/4)
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	messages := []*manifestwriterv1.WriteRequest{begin(s.Name, config, sample.Encode(sample.Backup(sample.UsualOwner)))}
	for i := range 50 {
		messages = append(messages, itemsMessage(manifestItem(fmt.Sprintf("item-%d", i))))
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

func checkManifestMessages(ctx context.Context, s *policy) error {
	want, err := s.needsDescription(ctx)
	if err != nil {
		return err
	}
	again, err := s.needsDescription(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(again.bytes(), want.bytes()) {
		return suite.Skip("the same items are described differently the second time")
	}
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	messages := []*manifestwriterv1.WriteRequest{begin(s.Name, config, sample.Encode(sample.Backup(sample.UsualOwner)))}
	for _, item := range someItems() {
		messages = append(messages, itemsMessage(item))
	}
	got, err := s.write(ctx, messages, 0)
	if err != nil {
		return fmt.Errorf("with a message for each item: %w", err)
	}
	if !bytes.Equal(got.bytes(), want.bytes()) {
		return errors.New("items are described differently if each has a message of its own")
	}
	return nil
}

func checkManifestMany(ctx context.Context, s *policy) error {
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
	_, err = s.description(ctx, config, sample.UsualOwner, items)
	return err
}

func checkManifestGarbage(ctx context.Context, s *policy) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	good := begin(s.Name, config, sample.Encode(sample.Backup(sample.UsualOwner)))
	for what, call := range map[string]struct {
		messages []*manifestwriterv1.WriteRequest
		lenient  bool // it may end without an error
	}{
		"a call without a message":        {messages: nil},
		"a call that begins with an item": {messages: []*manifestwriterv1.WriteRequest{itemsMessage(manifestItem("first"))}},
		"a call that begins with nothing": {messages: []*manifestwriterv1.WriteRequest{{}}},
		"a call that begins twice":        {messages: []*manifestwriterv1.WriteRequest{good, good}},
		"a Backup that is not JSON": {messages: []*manifestwriterv1.WriteRequest{
			begin(s.Name, config, []byte(`{"metadata":[`)),
		}},
		"a Backup that is not there": {messages: []*manifestwriterv1.WriteRequest{begin(s.Name, config, nil)}, lenient: true},
		"an item that is not there":  {messages: []*manifestwriterv1.WriteRequest{good, {}}, lenient: true},
	} {
		_, err := s.write(ctx, call.messages, 0)
		if suite.Hung(err) || suite.Panicked(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err == nil && !call.lenient {
			return fmt.Errorf("%s ends well", what)
		}
	}
	return nil
}

func checkManifestConcurrent(ctx context.Context, s *policy) error {
	if _, err := s.needsDescription(ctx); err != nil {
		return err
	}
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for i := range suite.Callers {
		group.Go(func() error {
			var items []*manifestwriterv1.Item
			for n := range 20 {
				items = append(items, manifestItem(fmt.Sprintf("%s-%d", suite.Caller(i), n)))
			}
			got, err := s.description(ctx, config, suite.Caller(i), items)
			if err != nil {
				return fmt.Errorf("%s: %w", suite.Caller(i), err)
			}
			for _, message := range got.messages {
				for other := range suite.Callers {
					if other != i && bytes.Contains(message.GetContent(), []byte(suite.Caller(other))) {
						return fmt.Errorf("the artifacts for %s have %s in them", suite.Caller(i), suite.Caller(other))
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func checkManifestCancelled(ctx context.Context, s *policy) error {
	if _, err := s.needsDescription(ctx); err != nil {
		return err
	}
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	conn, err := s.Conn(ctx)
	if err != nil {
		return err
	}
	for i := range 16 {
		given, cancel := context.WithCancel(ctx)
		stream, err := manifestwriterv1.NewManifestWriterServiceClient(conn).Write(given)
		if err == nil {
			_ = stream.Send(begin(s.Name, config, sample.Encode(sample.Backup(sample.UsualOwner))))
			for range i {
				_ = stream.Send(itemsMessage(manifestItem("first")))
			}
		}
		time.Sleep(time.Duration(i) * time.Millisecond) // some calls are cancelled before they have begun
		cancel()
	}
	return suite.Settled(ctx, func() error {
		_, err := s.usualDescription(ctx)
		return err
	})
}
