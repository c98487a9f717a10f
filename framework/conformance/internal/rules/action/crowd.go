package action

import (
	"bytes"
	"context"
	"fmt"
	"regexp"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

// crowdCallers is how many different items are asked about at once.
const crowdCallers = 64

// crowdItems returns the number of different items that an action is asked about. A random mistake in one of 64 answers
// is found with a probability of at least 98 %.
func (s *Action) crowdItems() int {
	if s.How().Progress != nil {
		return 4 * crowdCallers // each may start an operation
	}
	return 8 * crowdCallers
}

// marked matches the mark of an item of a crowd in any field.
var marked = regexp.MustCompile(`crowd[0-9]{4}x`)

func mark(i int) string { return fmt.Sprintf("crowd%04dx", i) }

// template is a request about an item that differs from all others in name, namespace, labels and annotations, as far
// as the selector of the action leaves the choice.
type template struct {
	request wire.Request
	mark    []byte
}

func (s *Action) template(ctx context.Context, of sample.Sample, i int) template {
	selector := s.selection(ctx).selector
	item := of.With(func(item *unstructured.Unstructured) {
		item.SetName(mark(i))
		if item.GetNamespace() != "" && sample.Selects(selector.GetIncludedNamespaces(), selector.GetExcludedNamespaces(),
			mark(i)) {
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
	q := s.Request(item)
	q.Key = sample.UsualOwner + "/" + mark(i)
	return template{q, []byte(mark(i))}
}

// about returns the request about the item i.
func (t template) about(i int) wire.Request {
	q := t.request
	q.Item, q.FromBackup = bytes.ReplaceAll(q.Item, t.mark, []byte(mark(i))), bytes.ReplaceAll(q.FromBackup, t.mark,
		[]byte(mark(i)))
	q.Key = sample.UsualOwner + "/" + mark(i)
	return q
}

// checkOwnAnswer asks about many different items at once. Nothing that marks one may be in the answer to another.
func checkOwnAnswer(ctx context.Context, s *Action) error {
	all, err := s.Answered(ctx)
	if err != nil {
		return err
	}
	templates := s.renamable(ctx, all)
	if len(templates) == 0 {
		return suite.Skip("it answers no item that has another name than %s", all[0].Sample)
	}
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(crowdCallers)
	for i := range s.crowdItems() {
		asking.Go(func() error {
			q := templates[i%len(templates)].about(i)
			got, err := s.Execute(ctx, q)
			if err != nil {
				return suite.NotHung(err) // action-concurrent is about errors
			}
			defer s.Abandon(ctx, q, got)
			if s.How().Answers {
				if err := s.checkItemOf(q, got); err != nil {
					return fmt.Errorf("asked about %s: %w", mark(i), err)
				}
			}
			return onlyMarkedBy(i, got)
		})
	}
	return asking.Wait()
}

// renamable returns templates for the samples of exchanges about which the action also answers when they have other
// names.
func (s *Action) renamable(ctx context.Context, all []Exchange) []template {
	templates := make([]template, len(all))
	right := make([]bool, len(all))
	var asking errgroup.Group
	for i, one := range all {
		asking.Go(func() error {
			templates[i] = s.template(ctx, one.Sample, i)
			right[i] = s.answersRight(ctx, templates[i].request)
			return nil
		})
	}
	_ = asking.Wait()
	var answered []template
	for i, one := range templates {
		if right[i] {
			answered = append(answered, one)
		}
	}
	return answered
}

// answersRight reports whether the reply to a request has the right item.
func (s *Action) answersRight(ctx context.Context, q wire.Request) bool {
	got, err := s.Execute(ctx, q)
	s.Abandon(ctx, q, got)
	return err == nil && (!s.How().Answers || s.checkItemOf(q, got) == nil)
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
