package action

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

func checkBareOwner(ctx context.Context, s *Action) error {
	_, _, err := s.changed(ctx, func(q *wire.Request, _ sample.Sample) {
		owner := s.Owner(sample.UsualOwner)
		delete(owner, "apiVersion")
		delete(owner, "kind")
		q.Owner = sample.Encode(owner)
	})
	return err
}

func (s *Action) withUnknownJSON(q *wire.Request, item sample.Sample) {
	odd := item.With(func(item *unstructured.Unstructured) { item.Object[sample.UnknownKey] = nil })
	odd.Object[sample.UnknownKey] = sample.Unknown()
	if spec, ok := odd.Object["spec"].(map[string]any); ok {
		spec[sample.UnknownKey] = sample.Unknown()
	}
	encoded := sample.Encode(odd.Object)
	q.Item = encoded
	if s.How().Restore {
		q.FromBackup = encoded
	}
	owner := s.Owner(sample.UsualOwner)
	owner[sample.UnknownKey] = sample.Unknown()
	if spec, ok := owner["spec"].(map[string]any); ok {
		spec[sample.UnknownKey] = sample.Unknown()
	}
	q.Owner = sample.Encode(owner)
}

func checkUnknownJSON(ctx context.Context, s *Action) error {
	_, _, err := s.changed(ctx, s.withUnknownJSON)
	return err
}

func checkJSONKept(ctx context.Context, s *Action) error {
	one, got, err := s.changed(ctx, s.withUnknownJSON)
	if err != nil {
		return suite.Skip("the item with unknown fields is not answered")
	}
	if got.Skip {
		return suite.Skip("the item is skipped")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(got.Item, &object); err != nil {
		return err
	}
	if err := unknownKept(object); err != nil {
		return fmt.Errorf("asked about %s with %w", one.Sample, err)
	}
	if _, ok := one.Sample.Object["spec"].(map[string]any); !ok {
		return nil
	}
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(object["spec"], &spec); err != nil {
		return fmt.Errorf("asked about %s, it answers with the spec %s", one.Sample, sample.Brief(object["spec"]))
	}
	if err := unknownKept(spec); err != nil {
		return fmt.Errorf("asked about %s with, in its spec, %w", one.Sample, err)
	}
	return nil
}

// unknownKept returns an error unless an object has the field that no plugin knows, with its value. Numbers of any size
// and lists are in it.
func unknownKept(object map[string]json.RawMessage) error {
	if sample.SameJSON(object[sample.UnknownKey], sample.Encode(sample.Unknown())) {
		return nil
	}
	return fmt.Errorf("the field %q: %s, it answers with %s", sample.UnknownKey, sample.Encode(sample.Unknown()),
		sample.Brief(object[sample.UnknownKey]))
}

func checkUnknownWire(ctx context.Context, s *Action) error {
	_, _, err := s.changed(ctx, func(q *wire.Request, _ sample.Sample) { q.Newer = true })
	return err
}
