package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func actionRules() []Rule {
	every := wire.KindsWhere(func(wire.ActionKind) bool { return true })
	answering := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Answers })
	return []Rule{
		{
			ID: "action-applies-to", Kinds: every, Severity: Must, check: checkAppliesTo,
			Text: "AppliesTo answers without a cluster, and answers the same each time: a host asks once per process and keeps the answer.",
		},
		{
			ID: "action-selector", Kinds: every, Severity: Must, check: checkSelector,
			Text: "The label selector in the answer of AppliesTo is valid. An invalid one fails every backup or restore.",
		},
		{
			ID: "action-item", Kinds: every, Severity: Must, check: checkItem,
			Text: "The action answers about each item that AppliesTo selects, or returns an error that says what is wrong. It does not panic, hang, or exit.",
		},
		{
			ID: "action-reply-item", Kinds: answering, Severity: Must, check: checkReplyItem,
			Text: "The item in the answer is the JSON of an object with apiVersion, kind and name. In a backup it is the object of the request, " +
				"by group, kind, namespace and name. An action that changes nothing answers the bytes of the request.",
		},
		{
			ID: "action-reply-identifiers", Kinds: every, Severity: Must, check: checkIdentifiers,
			Text: "Each additional, related or post-operation item names a resource and an object, and none of its parts can be taken for a path.",
		},
		{
			ID: "action-resource-names", Kinds: every, Severity: Must, check: checkResourceNames,
			Text: `Resources have the names that they have in the API: the plural, like "pods", in the items of an answer; in AppliesTo also the singular or short one. ` +
				`A kind, like "Pod", is none of them.`,
		},
		{
			ID: "action-same-answer", Severity: Should, check: checkSameAnswer,
			Kinds: []string{"BackupItemAction", "BackupItemActionV2", "RestoreItemAction", "RestoreItemActionV2", "ItemBlockAction"},
			Text:  "A second call about the same item has the same answer, except for operations.",
		},
		{
			ID: "action-owner-bare", Kinds: every, Severity: Must, check: checkBareOwner,
			Text: "apiVersion and kind may be missing in the Backup or Restore.",
		},
		{
			ID: "action-json-unknown", Kinds: every, Severity: Must, check: checkUnknownJSON,
			Text: "Fields that the plugin does not know are not an error, neither in the item nor in the Backup or Restore.",
		},
		{
			ID: "action-json-kept", Kinds: answering, Severity: Should, check: checkJSONKept,
			Text: "The answer keeps fields of the item that the plugin does not know, and integers of up to 64 bits. What is lost here is missing in the backup.",
		},
		{
			ID: "action-wire-unknown", Kinds: every, Severity: Must, check: checkUnknownWire,
			Text: "A request may have fields that the plugin does not know.",
		},
		{
			ID: "action-request-empty", Kinds: every, Severity: Must, check: checkEmptyRequest,
			Text: "A request without an item, without a Backup or Restore, or with an empty one, gets an error or changes nothing. The process does not exit.",
		},
		{
			ID: "action-request-garbage", Kinds: every, Severity: Must, check: checkGarbage,
			Text: "An item that is not a JSON object gets an error or is answered unchanged. The process does not exit.",
		},
		{
			ID: "action-large-item", Kinds: every, Severity: Must, check: checkLargeItem,
			Text: "An item of 2 MiB gets the same answer as a small one.",
		},
		{
			ID: "action-large-request", Kinds: every, Severity: Must, check: checkLargeRequest,
			Text: "A plugin that has PluginInfo accepts requests of more than 4 MiB, because item and Backup are sent in one message. (Plugins built for stock Velero need not.)",
		},
		{
			ID: "action-concurrent", Kinds: every, Severity: Must, check: checkConcurrent,
			Text: "32 concurrent calls for different items are answered like sequential ones, and no answer has parts of another.",
		},
		{
			ID: "action-own-answer", Kinds: every, Severity: Must, check: checkOwnAnswer,
			Text: "Of hundreds of different items, 64 at a time, no name, namespace, label or annotation of one is in the answer to another.",
		},
		{
			ID: "action-cancelled", Kinds: every, Severity: Must, check: checkCancelled,
			Text: "Calls that the host cancels do no harm: the next call is answered.",
		},
	}
}

// action returns how the action is called.
func (s *subject) action() wire.ActionKind { return wire.ActionKinds()[s.kind] }

// owner returns the Backup or Restore of the calls.
func (s *subject) owner(name string) map[string]any {
	if s.action().Restore {
		return sample.Restore(name)
	}
	return sample.Backup(name)
}

// usualOwner is the name of the Backup or Restore of most calls.
const usualOwner = "nightly"

// question returns the question about an item for the usual owner.
func (s *subject) question(item sample.Sample) wire.Question {
	q := wire.Question{Plugin: s.name, Owner: sample.Encode(s.owner(usualOwner)), Key: usualOwner + "/" + item.String()}
	if s.action().Restore {
		q.Item, q.FromBackup = item.Created(), item.Stored()
	} else {
		q.Item = item.Stored()
	}
	return q
}

// execute asks a question.
func (s *subject) execute(ctx context.Context, q wire.Question) (*wire.Answer, error) {
	conn, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	if q.Padding > 0 {
		q.Item = sample.Pad(q.Item, q.Padding)
	}
	got, err := s.action().Execute(ctx, conn, q)
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

func (s *subject) selection(ctx context.Context) selected {
	return remembered(s, "selection", func() selected {
		if err := s.needsService(ctx); err != nil {
			return selected{err: err}
		}
		conn, err := s.conn(ctx)
		if err != nil {
			return selected{err: err}
		}
		ctx, cancel := s.call(ctx)
		defer cancel()
		selector, err := s.action().AppliesTo(ctx, conn, s.name)
		return selected{selector, err}
	})
}

func checkAppliesTo(ctx context.Context, s *subject) error {
	first := s.selection(ctx)
	if first.err != nil {
		return first.err
	}
	conn, err := s.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	again, err := s.action().AppliesTo(ctx, conn, s.name)
	if err != nil {
		return err
	}
	// Absent is the same as empty.
	if !proto.Equal(orEmpty(first.selector), orEmpty(again)) {
		return fmt.Errorf("the first time it answered %v, the second time %v", first.selector, again)
	}
	return nil
}

func orEmpty(selector *shared.ResourceSelector) *shared.ResourceSelector {
	if selector == nil {
		return &shared.ResourceSelector{}
	}
	return selector
}

func checkSelector(ctx context.Context, s *subject) error {
	answered := s.selection(ctx)
	if answered.err != nil {
		return skip("AppliesTo does not answer")
	}
	if _, err := labels.Parse(answered.selector.GetSelector()); err != nil {
		return fmt.Errorf("the selector is %q: %w", answered.selector.GetSelector(), err)
	}
	return nil
}

// exchange is a question and its answer.
type exchange struct {
	sample   sample.Sample
	question wire.Question
	answer   *wire.Answer
	err      error
}

// exchanges returns the questions about all samples that the action selects, with their answers.
func (s *subject) exchanges(ctx context.Context) ([]exchange, error) {
	answered := s.selection(ctx)
	if answered.err != nil {
		return nil, skip("AppliesTo does not answer")
	}
	all := remembered(s, "exchanges", func() []exchange {
		var all []exchange
		for _, item := range s.items {
			if fitting, ok := item.Fit(answered.selector); ok {
				all = append(all, exchange{sample: fitting, question: s.question(fitting)})
			}
		}
		for i := range all {
			began := time.Now()
			all[i].answer, all[i].err = s.execute(ctx, all[i].question)
			if hung(all[i].err) {
				return all[:i+1] // the others would hang as well
			}
			if time.Since(began) > slowCall {
				s.executeAtOnce(ctx, all[i+1:])
				break
			}
		}
		return all
	})
	if len(all) == 0 {
		return nil, skip("AppliesTo selects none of the sample items (%v); give an item that it selects", answered.selector)
	}
	return all, nil
}

// slowCall is the duration of a call above which independent calls are made at the same time.
const slowCall = time.Second

// executeAtOnce asks the questions of exchanges concurrently.
func (s *subject) executeAtOnce(ctx context.Context, all []exchange) {
	var asking errgroup.Group
	asking.SetLimit(callers)
	for i := range all {
		asking.Go(func() error {
			all[i].answer, all[i].err = s.execute(ctx, all[i].question)
			return nil
		})
	}
	_ = asking.Wait()
}

func hung(err error) bool {
	code := status.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Unavailable
}

func checkItem(ctx context.Context, s *subject) error {
	all, err := s.exchanges(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		switch {
		case panicked(one.err):
			return fmt.Errorf("asked about %s: %w", one.sample, one.err)
		case status.Code(one.err) == codes.DeadlineExceeded:
			return fmt.Errorf("asked about %s: no answer within %s", one.sample, s.timeout)
		case hung(one.err):
			return fmt.Errorf("asked about %s: %w", one.sample, one.err)
		case one.err != nil && strings.TrimSpace(status.Convert(one.err).Message()) == "":
			return fmt.Errorf("asked about %s: an error without a message, of the code %s", one.sample, status.Code(one.err))
		}
	}
	return nil
}

// panicked reports whether err is that of a handler that panicked (Velero's wire).
func panicked(err error) bool {
	return status.Code(err) == codes.Aborted && strings.HasPrefix(status.Convert(err).Message(), "plugin panicked")
}

// answered returns the exchanges without an error.
func (s *subject) answered(ctx context.Context) ([]exchange, error) {
	all, err := s.exchanges(ctx)
	if err != nil {
		return nil, err
	}
	var well []exchange
	for _, one := range all {
		if one.err == nil {
			well = append(well, one)
		}
	}
	if len(well) == 0 {
		return nil, skip("every sample item got an error, %s: %v", all[0].sample, all[0].err)
	}
	return well, nil
}

func checkReplyItem(ctx context.Context, s *subject) error {
	all, err := s.answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := s.checkItemOf(one.question, one.answer); err != nil {
			return fmt.Errorf("asked about %s: %w", one.sample, err)
		}
	}
	return nil
}

// checkItemOf checks the item of one answer.
func (s *subject) checkItemOf(q wire.Question, a *wire.Answer) error {
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
	if !s.action().SameItem {
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

func checkIdentifiers(ctx context.Context, s *subject) error {
	if s.kind == "DeleteItemAction" {
		return skip("a DeleteItemAction answers no items")
	}
	all, err := s.answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.answer.Skip {
			continue
		}
		for _, list := range [][]*shared.ResourceIdentifier{one.answer.Additional, one.answer.After} {
			for i, id := range list {
				if id.GetResource() == "" || id.GetName() == "" {
					return fmt.Errorf("asked about %s: item %d of %d names no resource or no object: %v", one.sample, i+1, len(list), id)
				}
				for _, part := range []string{id.GetGroup(), id.GetResource(), id.GetNamespace(), id.GetName()} {
					if part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
						return fmt.Errorf("asked about %s: item %d of %d has %q in it", one.sample, i+1, len(list), part)
					}
				}
			}
		}
	}
	return nil
}

// sound returns an exchange with a valid answer. Other answers are compared with it.
func (s *subject) sound(ctx context.Context) (exchange, error) {
	all, err := s.answered(ctx)
	if err != nil {
		return exchange{}, err
	}
	for _, one := range all {
		if !s.action().Answers || s.checkItemOf(one.question, one.answer) == nil {
			return one, nil
		}
	}
	return exchange{}, skip("none of its answers has a valid item")
}

func checkSameAnswer(ctx context.Context, s *subject) error {
	one, err := s.sound(ctx)
	if err != nil {
		return err
	}
	again, err := s.execute(ctx, one.question)
	if err != nil {
		return fmt.Errorf("asked about %s for the second time: %w", one.sample, err)
	}
	switch {
	case one.answer.Skip != again.Skip:
		return fmt.Errorf("asked about %s, it once skips the restore and once does not", one.sample)
	case !sameJSON(one.answer.Item, again.Item):
		return fmt.Errorf("asked about %s, it first answers the item %s, and then %s", one.sample, sample.Brief(one.answer.Item), sample.Brief(again.Item))
	case fmt.Sprint(one.answer.Additional) != fmt.Sprint(again.Additional):
		return fmt.Errorf("asked about %s, it first answers the items %v, and then %v", one.sample, one.answer.Additional, again.Additional)
	}
	return nil
}

func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return decodeNumbers(a, &x) == nil && decodeNumbers(b, &y) == nil && reflect.DeepEqual(x, y)
}

// decodeNumbers decodes JSON and keeps numbers as they are written.
func decodeNumbers(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// changed asks the question of a sound exchange again, after a change that the plugin should ignore.
func (s *subject) changed(ctx context.Context, change func(*wire.Question, sample.Sample)) (exchange, *wire.Answer, error) {
	one, err := s.sound(ctx)
	if err != nil {
		return one, nil, err
	}
	q := one.question
	change(&q, one.sample)
	got, err := s.execute(ctx, q)
	if err != nil {
		return one, nil, fmt.Errorf("asked about %s: %w", one.sample, err)
	}
	if s.action().Answers {
		if err := s.checkItemOf(q, got); err != nil {
			return one, nil, fmt.Errorf("asked about %s: %w", one.sample, err)
		}
	}
	return one, got, nil
}

func checkBareOwner(ctx context.Context, s *subject) error {
	_, _, err := s.changed(ctx, func(q *wire.Question, _ sample.Sample) {
		owner := s.owner(usualOwner)
		delete(owner, "apiVersion")
		delete(owner, "kind")
		q.Owner = sample.Encode(owner)
	})
	return err
}

// unknown returns a value that no plugin knows. Its number cannot be represented as a float64.
func unknown() map[string]any {
	return map[string]any{"list": []any{int64(1), 2.5, nil, "text", true}, "number": json.Number("9007199254740993"), "object": map[string]any{"empty": map[string]any{}}}
}

const unknownKey = "conformanceUnknown"

func (s *subject) withUnknownJSON(q *wire.Question, item sample.Sample) {
	odd := item.With(func(item *unstructured.Unstructured) { item.Object[unknownKey] = nil })
	odd.Object[unknownKey] = unknown()
	encoded := sample.Encode(odd.Object)
	q.Item = encoded
	if s.action().Restore {
		q.FromBackup = encoded
	}
	owner := s.owner(usualOwner)
	owner[unknownKey] = unknown()
	if spec, ok := owner["spec"].(map[string]any); ok {
		spec[unknownKey] = unknown()
	}
	q.Owner = sample.Encode(owner)
}

func checkUnknownJSON(ctx context.Context, s *subject) error {
	_, _, err := s.changed(ctx, s.withUnknownJSON)
	return err
}

func checkJSONKept(ctx context.Context, s *subject) error {
	one, got, err := s.changed(ctx, s.withUnknownJSON)
	if err != nil {
		return skip("the item with unknown fields is not answered")
	}
	if got.Skip {
		return skip("the item is skipped")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(got.Item, &object); err != nil {
		return err
	}
	if !sameJSON(object[unknownKey], sample.Encode(unknown())) {
		return fmt.Errorf("asked about %s with the field %q: %s, it answers with %s",
			one.sample, unknownKey, sample.Encode(unknown()), sample.Brief(object[unknownKey]))
	}
	return nil
}

func checkUnknownWire(ctx context.Context, s *subject) error {
	_, _, err := s.changed(ctx, func(q *wire.Question, _ sample.Sample) { q.Newer = true })
	return err
}

// odd sends requests that no host sends. An answer without an error must leave the item unchanged.
func (s *subject) odd(ctx context.Context, questions map[string]wire.Question) error {
	if err := s.survives(ctx); err != nil {
		return err
	}
	for what, q := range questions {
		got, err := s.execute(ctx, q)
		if err := notHung(err); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err == nil && s.action().Answers && !got.Skip && !bytes.Equal(got.Item, q.Item) {
			if _, err := sample.IdentityOf(q.Item); err == nil && len(q.Owner) == 0 && s.checkItemOf(q, got) == nil {
				continue // the item was valid
			}
			return fmt.Errorf("%s: the answer is the item %s", what, sample.Brief(got.Item))
		}
		if conn, err := s.conn(ctx); err != nil {
			return err
		} else if _, err := s.appliesTo(ctx, conn); hung(err) {
			return fmt.Errorf("%s: after that nothing is answered: %w", what, err)
		}
	}
	return nil
}

// survives skips a rule if the action does not even answer about valid items.
func (s *subject) survives(ctx context.Context) error {
	if s.selection(ctx).err != nil {
		return skip("AppliesTo does not answer")
	}
	all, err := s.exchanges(ctx)
	if err == nil && slices.ContainsFunc(all, func(one exchange) bool { return hung(one.err) }) {
		return skip("it does not answer about a valid item")
	}
	return nil
}

func (s *subject) appliesTo(ctx context.Context, conn *grpc.ClientConn) (*shared.ResourceSelector, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	return s.action().AppliesTo(ctx, conn, s.name)
}

// anyItem returns an item that the action selects, if there is one.
func (s *subject) anyItem(ctx context.Context) sample.Sample {
	if all, err := s.exchanges(ctx); err == nil {
		return all[0].sample
	}
	return s.items[0]
}

func checkEmptyRequest(ctx context.Context, s *subject) error {
	full := s.question(s.anyItem(ctx))
	noOwner, noItem, emptyItem, emptyOwner := full, full, full, full
	noOwner.Owner = nil
	noItem.Item = nil
	emptyItem.Item = []byte("{}")
	if s.action().Restore {
		noItem.FromBackup, emptyItem.FromBackup = nil, []byte("{}")
	}
	emptyOwner.Owner = []byte("{}")
	questions := map[string]wire.Question{
		"a request with nothing but the plugin's name": {Plugin: s.name},
		"a request without an item":                    noItem,
		"the item {}":                                  emptyItem,
	}
	if err := s.odd(ctx, questions); err != nil {
		return err
	}
	// The items are valid, so any valid answer is allowed.
	for what, q := range map[string]wire.Question{"a request without a Backup or Restore": noOwner, "the Backup or Restore {}": emptyOwner} {
		if _, err := s.execute(ctx, q); notHung(err) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

func checkGarbage(ctx context.Context, s *subject) error {
	full := s.question(s.anyItem(ctx))
	questions := map[string]wire.Question{}
	for _, item := range []string{
		"\x00\xff\xfe", `{"apiVersion":"v1","kind":"Pod","meta`, `null`, `[]`, `"text"`, `{"kind":1,"metadata":[]}`, strings.Repeat("[", 5000),
	} {
		q := full
		q.Item = []byte(item)
		if s.action().Restore {
			q.FromBackup = q.Item
		}
		questions[fmt.Sprintf("the item %.30q", item)] = q
	}
	owner := full
	owner.Owner = []byte(`{"metadata":[1,2`)
	if err := s.odd(ctx, questions); err != nil {
		return err
	}
	if _, err := s.execute(ctx, owner); notHung(err) != nil {
		return fmt.Errorf("a Backup or Restore that is no JSON: %w", err)
	}
	return nil
}

const mebibyte = 1 << 20

func checkLargeItem(ctx context.Context, s *subject) error { return s.takes(ctx, 2*mebibyte) }

// takes checks the answer to an item of a size in bytes.
func (s *subject) takes(ctx context.Context, size int) error {
	_, _, err := s.changed(ctx, func(q *wire.Question, item sample.Sample) {
		q.Item, q.Padding = s.question(item.Padded()).Item, size
	})
	return err
}

func checkLargeRequest(ctx context.Context, s *subject) error {
	if s.info == nil {
		return skip("the process has no PluginInfo, and may keep gRPC's limit of 4 MiB")
	}
	return s.takes(ctx, 5*mebibyte)
}

// callers is the number of concurrent calls.
const callers = 32

// caller returns the mark in all parts of the requests of one concurrent caller.
func caller(i int) string { return fmt.Sprintf("caller%02d", i) }

func checkConcurrent(ctx context.Context, s *subject) error {
	questions, err := s.callerQuestions(ctx)
	if err != nil {
		return err
	}
	problems := make([]error, callers)
	var asking sync.WaitGroup
	begin := make(chan struct{})
	for i, q := range questions {
		asking.Go(func() {
			<-begin
			for range 4 {
				if problems[i] = s.asCaller(ctx, i, q); problems[i] != nil {
					return
				}
			}
		})
	}
	close(begin)
	asking.Wait()
	return errors.Join(problems...)
}

// callerQuestions returns a question for each of the concurrent callers. The items differ in name where the plugin answers
// items of other names; the items of the caller of the suite may have to keep theirs.
func (s *subject) callerQuestions(ctx context.Context) ([]wire.Question, error) {
	one, err := s.sound(ctx)
	if err != nil {
		return nil, err
	}
	for _, renamed := range []bool{true, false} {
		for _, owned := range []bool{true, false} { // the answer may depend on the owner's name
			questions := make([]wire.Question, callers)
			for i := range questions {
				item := one.sample.With(func(item *unstructured.Unstructured) {
					if renamed {
						item.SetName(caller(i))
					}
					sample.Annotate(item, "conformance.invalid/caller", caller(i))
				})
				questions[i] = s.question(item)
				questions[i].Key = caller(i)
				if owned {
					questions[i].Owner = sample.Encode(s.owner(caller(i)))
				}
			}
			if _, err = s.execute(ctx, questions[0]); err == nil {
				return questions, nil
			}
		}
	}
	return nil, skip("asked about another item of the kind, it answers an error: %v", err)
}

// asCaller asks as one of the concurrent callers and checks that the answer has no mark of another caller.
func (s *subject) asCaller(ctx context.Context, i int, q wire.Question) error {
	got, err := s.execute(ctx, q)
	if err != nil {
		return fmt.Errorf("%s: %w", caller(i), err)
	}
	raw, err := proto.Marshal(got.Raw)
	if err != nil {
		return err
	}
	for other := range callers {
		if other != i && bytes.Contains(raw, []byte(caller(other))) {
			return fmt.Errorf("the answer to %s has %s in it: %s", caller(i), caller(other), sample.Brief(got.Item))
		}
	}
	return nil
}

func checkCancelled(ctx context.Context, s *subject) error {
	one, err := s.sound(ctx)
	if err != nil {
		return err
	}
	if _, err := s.conn(ctx); err != nil {
		return err
	}
	// Calls are cancelled at all times between their start and their answer. The window grows until some calls are
	// answered in time.
	for window := 20 * time.Millisecond; window < 2*time.Second; window *= 2 {
		if s.givesUp(ctx, one.question, window) {
			break
		}
	}
	return settled(ctx, func() error {
		if _, err := s.execute(ctx, one.question); err != nil {
			return fmt.Errorf("after calls were given up, the next about %s: %w", one.sample, err)
		}
		return nil
	})
}

// givesUp makes many calls at once, cancels each at a different time within window, and reports whether some were answered before.
func (s *subject) givesUp(ctx context.Context, q wire.Question, window time.Duration) (answered bool) {
	const calls = 2 * callers
	var inTime atomic.Bool
	var asking sync.WaitGroup
	for i := range calls {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, window*time.Duration(i)/calls)
			defer cancel()
			if _, err := s.execute(ctx, q); err == nil {
				inTime.Store(true)
			}
		})
	}
	asking.Wait()
	return inTime.Load()
}
