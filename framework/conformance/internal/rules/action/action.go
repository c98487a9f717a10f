package action

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Action is an action that rules are checked on.
type Action struct{ *suite.Subject }

// with adapts a check of an action.
func with(check func(context.Context, *Action) error) suite.Check {
	return func(ctx context.Context, s *suite.Subject) error { return check(ctx, &Action{s}) }
}

// How returns how the action is called.
func (s *Action) How() wire.ActionKind { return wire.ActionKinds()[s.Kind] }

// Owner returns the Backup or Restore of the calls.
func (s *Action) Owner(name string) map[string]any {
	if s.How().Restore {
		return sample.Restore(name)
	}
	return sample.Backup(name)
}

// Request returns the request about an item for the usual owner.
func (s *Action) Request(item sample.Sample) wire.Request {
	q := wire.Request{Plugin: s.Name, Owner: sample.Encode(s.Owner(sample.UsualOwner)), Key: sample.UsualOwner + "/" +
		item.String()}
	if s.How().Restore {
		q.Item, q.FromBackup = item.Created(), item.Stored()
	} else {
		q.Item = item.Stored()
	}
	return q
}

// Execute sends a request.
func (s *Action) Execute(ctx context.Context, q wire.Request) (*wire.Answer, error) {
	conn, err := s.Conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	if q.Padding > 0 {
		q.Item = sample.Pad(q.Item, q.Padding)
	}
	got, err := s.How().Execute(ctx, conn, q)
	if err != nil {
		return nil, err
	}
	if q.Padding > 0 {
		got.Item = sample.Unpad(got.Item, q.Padding)
	}
	return got, nil
}

// selected is the answer of AppliesTo.
type selected struct {
	selector *shared.ResourceSelector
	err      error
}

func (s *Action) selection(ctx context.Context) selected {
	return suite.Remembered(s.Subject, "selection", func() selected {
		if err := s.NeedsService(ctx); err != nil {
			return selected{err: err}
		}
		conn, err := s.Conn(ctx)
		if err != nil {
			return selected{err: err}
		}
		ctx, cancel := s.Call(ctx)
		defer cancel()
		selector, err := s.How().AppliesTo(ctx, conn, s.Name)
		return selected{selector, err}
	})
}

// Exchange is a request and its reply.
type Exchange struct {
	Sample  sample.Sample
	Request wire.Request
	Answer  *wire.Answer
	Err     error
}

// exchanges returns the requests about all samples that the action selects, with their answers.
func (s *Action) exchanges(ctx context.Context) ([]Exchange, error) {
	answered := s.selection(ctx)
	if answered.err != nil {
		return nil, suite.Skip("AppliesTo does not answer")
	}
	all := suite.Remembered(s.Subject, "exchanges", func() []Exchange {
		var all []Exchange
		for _, item := range slices.Concat(s.Items, sample.Made(answered.selector, s.Items)) {
			if fitting, ok := item.Fit(answered.selector); ok {
				all = append(all, Exchange{Sample: fitting, Request: s.Request(fitting)})
			}
		}
		_ = s.Each(ctx, len(all), func(ctx context.Context, i int) error {
			all[i].Answer, all[i].Err = s.Execute(ctx, all[i].Request)
			if suite.Hung(all[i].Err) {
				return all[i].Err // the others would hang as well
			}
			return nil
		})
		return slices.DeleteFunc(all, func(one Exchange) bool { return one.Answer == nil && one.Err == nil })
	})
	if len(all) == 0 {
		return nil, suite.Skip("AppliesTo selects none of the sample items (%v); give an item that it selects",
			answered.selector)
	}
	return all, nil
}

// Answered returns the exchanges without an error.
func (s *Action) Answered(ctx context.Context) ([]Exchange, error) {
	all, err := s.exchanges(ctx)
	if err != nil {
		return nil, err
	}
	var well []Exchange
	for _, one := range all {
		if one.Err == nil {
			well = append(well, one)
		}
	}
	if len(well) == 0 {
		return nil, suite.Skip("every sample item got an error, %s: %v", all[0].Sample, all[0].Err)
	}
	return well, nil
}

// Sound returns an exchange with a valid answer. Other answers are compared with it.
func (s *Action) Sound(ctx context.Context) (Exchange, error) {
	all, err := s.Answered(ctx)
	if err != nil {
		return Exchange{}, err
	}
	for _, one := range all {
		if !s.How().Answers || s.checkItemOf(one.Request, one.Answer) == nil {
			return one, nil
		}
	}
	return Exchange{}, suite.Skip("none of its answers has a valid item")
}

// changed sends the request of a sound exchange again, after a change that the plugin should ignore.
func (s *Action) changed(
	ctx context.Context, change func(*wire.Request, sample.Sample),
) (Exchange, *wire.Answer, error) {
	one, err := s.Sound(ctx)
	if err != nil {
		return one, nil, err
	}
	q := one.Request
	change(&q, one.Sample)
	got, err := s.Execute(ctx, q)
	if err != nil {
		return one, nil, fmt.Errorf("asked about %s: %w", one.Sample, err)
	}
	if s.How().Answers {
		if err := s.checkItemOf(q, got); err != nil {
			return one, nil, fmt.Errorf("asked about %s: %w", one.Sample, err)
		}
	}
	return one, got, nil
}

func (s *Action) checkItemOf(q wire.Request, a *wire.Answer) error {
	if a.Skip || bytes.Equal(q.Item, a.Item) {
		return nil
	}
	got, err := sample.IdentityOf(a.Item)
	if err != nil {
		return err
	}
	switch {
	case got.APIVersion == "":
		return fmt.Errorf("the item has no apiVersion: %s", sample.Brief(a.Item))
	case got.Kind == "":
		return fmt.Errorf("the item has no kind: %s", sample.Brief(a.Item))
	case got.Name == "":
		return fmt.Errorf("the item has no metadata.name: %s", sample.Brief(a.Item))
	}
	if !s.How().SameItem {
		return nil
	}
	want, err := sample.IdentityOf(q.Item)
	if err != nil {
		return err
	}
	if got.Group() != want.Group() || got.Kind != want.Kind || got.Namespace != want.Namespace || got.Name != want.Name {
		return fmt.Errorf("the item is %s %s %s/%s, want %s %s %s/%s",
			got.APIVersion, got.Kind, got.Namespace, got.Name, want.APIVersion, want.Kind, want.Namespace, want.Name)
	}
	return nil
}

// Progress calls Progress.
func (s *Action) Progress(ctx context.Context, id string, owner []byte) (*shared.OperationProgress, error) {
	conn, err := s.Conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	return s.How().Progress(ctx, conn, s.Name, id, owner)
}

// Cancel calls Cancel. It returns whether the plugin says that the operation is going to end.
func (s *Action) Cancel(ctx context.Context, id string, owner []byte) (bool, error) {
	conn, err := s.Conn(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	return s.How().Cancel(ctx, conn, s.Name, id, owner)
}

// Abandon cancels an operation that a check has started and does not need any longer.
func (s *Action) Abandon(ctx context.Context, q wire.Request, a *wire.Answer) {
	if a != nil && a.Operation != "" {
		_, _ = s.Cancel(context.WithoutCancel(ctx), a.Operation, q.Owner)
	}
}

// Work returns a call about an item of some bytes, or nil if calls fail.
func Work(ctx context.Context, subject *suite.Subject, size int) func(context.Context) error {
	s := &Action{subject}
	one, err := s.Sound(ctx)
	if err != nil {
		return nil
	}
	q := s.Request(one.Sample.Padded())
	q.Padding = size
	if _, err := s.Execute(ctx, q); err != nil {
		q = one.Request
	}
	return func(ctx context.Context) error {
		got, err := s.Execute(ctx, q)
		s.Abandon(ctx, q, got)
		return err
	}
}
