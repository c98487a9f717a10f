package conformance

import (
	"bytes"
	"context"
	"fmt"
	"regexp"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

// crowdCallers is how many different items are asked about at once.
const crowdCallers = 64

// crowdItems returns the number of different items that an action is asked about. A random mistake in one of 64 answers is found
// with a probability of at least 98 %.
func (s *subject) crowdItems() int {
	if s.action().Progress != nil {
		return 4 * crowdCallers // each may start an operation
	}
	return 8 * crowdCallers
}

// marked matches the mark of an item of a crowd in any field.
var marked = regexp.MustCompile(`crowd[0-9]{4}x`)

func mark(i int) string { return fmt.Sprintf("crowd%04dx", i) }

// crowdQuestion returns a question about an item that differs from all others in name, namespace, labels and annotations, as
// far as the selector of the action leaves the choice.
func (s *subject) crowdQuestion(ctx context.Context, of sample.Sample, i int, owner string) wire.Question {
	selector := s.selection(ctx).selector
	item := of.With(func(item *unstructured.Unstructured) {
		item.SetName(mark(i))
		if item.GetNamespace() != "" && sample.Selects(selector.GetIncludedNamespaces(), selector.GetExcludedNamespaces(), mark(i)) {
			item.SetNamespace(mark(i))
		}
		labels := item.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["conformance.invalid/"+mark(i)] = mark(i)
		item.SetLabels(labels)
		sample.Annotate(item, "conformance.invalid/caller", mark(i))
	})
	q := s.question(item)
	q.Owner, q.Key = sample.Encode(s.owner(owner)), owner+"/"+mark(i)
	return q
}

// checkOwnAnswer asks about many different items at once. Nothing that marks one may be in the answer to another.
func checkOwnAnswer(ctx context.Context, s *subject) error {
	all, err := s.answered(ctx)
	if err != nil {
		return err
	}
	samples := s.renamable(ctx, all)
	if len(samples) == 0 {
		return skip("it answers no item that has another name than %s", all[0].sample)
	}
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(crowdCallers)
	for i := range s.crowdItems() {
		asking.Go(func() error {
			q := s.crowdQuestion(ctx, samples[i%len(samples)], i, usualOwner)
			got, err := s.execute(ctx, q)
			if err != nil {
				return notHung(err) // action-concurrent is about errors
			}
			defer s.abandon(ctx, q, got)
			if s.action().Answers {
				if err := s.checkItemOf(q, got); err != nil {
					return fmt.Errorf("asked about %s: %w", mark(i), err)
				}
			}
			return onlyMarkedBy(i, got)
		})
	}
	return asking.Wait()
}

// renamable returns the samples of exchanges about which the action also answers when they have other names.
func (s *subject) renamable(ctx context.Context, all []exchange) []sample.Sample {
	right := make([]bool, len(all))
	var asking errgroup.Group
	for i, one := range all {
		asking.Go(func() error {
			right[i] = s.answersRight(ctx, s.crowdQuestion(ctx, one.sample, i, usualOwner))
			return nil
		})
	}
	_ = asking.Wait()
	var samples []sample.Sample
	for i, one := range all {
		if right[i] {
			samples = append(samples, one.sample)
		}
	}
	return samples
}

// answersRight reports whether a question gets an answer with a right item.
func (s *subject) answersRight(ctx context.Context, q wire.Question) bool {
	got, err := s.execute(ctx, q)
	s.abandon(ctx, q, got)
	return err == nil && (!s.action().Answers || s.checkItemOf(q, got) == nil)
}

// onlyMarkedBy checks that an answer holds no mark but that of the item i.
func onlyMarkedBy(i int, got *wire.Answer) error {
	raw, err := proto.Marshal(got.Raw)
	if err != nil {
		return err
	}
	for _, found := range marked.FindAll(raw, -1) {
		if !bytes.Equal(found, []byte(mark(i))) {
			return fmt.Errorf("the answer to %s has %s in it: %s", mark(i), found, sample.Brief(got.Item))
		}
	}
	return nil
}
