package operation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/versioning"
)

func nightly() *operation.Owner {
	return &operation.Owner{Kind: operation.OfBackup, Namespace: "velero", Name: "nightly", UID: "u-1",
		JSON: []byte(`{"kind":"Backup"}`)}
}

func startOf(name string) operation.Start {
	sent := `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"shop","name":"` + name + `"}}`
	return operation.Start{Action: "a.io/copy", Item: pvc(name), Sent: []byte(sent)}
}

// api is a fake API server whose writes pass through fail. They may take effect although they fail.
type api struct {
	client.Client
	fail   func() (before, after error)
	writes atomic.Int64
}

func newAPI() *api {
	a := &api{fail: func() (error, error) { return nil, nil }}
	through := func(write func() error) error {
		a.writes.Add(1)
		before, after := a.fail()
		if before != nil {
			return before
		}
		return errors.Join(write(), after)
	}
	a.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return through(func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return through(func() error { return c.Patch(ctx, o, p, opts...) })
		},
	}).Build()
	return a
}

func (a *api) journals() *operation.Journals {
	return operation.NewJournals(a.Client, a.Client, "velero", signing.Fixed(signing.NewKey([]byte("of tests"))),
		hclog.NewNullLogger())
}

func (a *api) pages(t *testing.T) []corev1.ConfigMap {
	t.Helper()
	var list corev1.ConfigMapList
	require.NoError(t, a.List(t.Context(), &list))
	return list.Items
}

// described returns the records of a journal as text.
func described(j *operation.Journal) []string {
	var all []string
	for _, r := range j.Starts() {
		text := r.Item.Name + " " + r.ID
		if r.InDoubt() {
			text = r.Item.Name + " in doubt"
		}
		if !r.Keyed {
			text += " unkeyed"
		}
		all = append(all, text)
	}
	return all
}

func open(t *testing.T, journals *operation.Journals) *operation.Journal {
	t.Helper()
	j, err := journals.Open(t.Context(), nightly())
	require.NoError(t, err)
	return j
}

func begin(t *testing.T, j *operation.Journal, name string) *operation.Entry {
	t.Helper()
	e, err := j.Begin(t.Context(), startOf(name))
	require.NoError(t, err)
	return e
}

func TestJournalSurvivesItsProcess(t *testing.T) {
	t.Parallel()
	journals := newAPI().journals()
	j := open(t, journals)
	require.Empty(t, j.Starts())
	begin(t, j, "killed") // the process ends while the action is called
	begin(t, j, "done").End("op-1", nil)
	begin(t, j, "idle").End("", nil)
	begin(t, j, "refused").End("",
		versioning.NewPlugin("Kind", "a.io/copy").Wrap(status.Error(codes.Unknown, "disk full")))
	begin(t, j, "lost").End("", versioning.NewPlugin("Kind", "a.io/copy").Wrap(status.Error(codes.Unavailable, "gone")))
	require.NoError(t, j.Started(t.Context(), startOf("old"), "op-2"))
	want := []string{"killed in doubt", "done op-1", "lost in doubt", "old op-2 unkeyed"}
	require.Equal(t, want, described(j))

	again := open(t, journals)
	require.Equal(t, want, described(again))
	require.Equal(t, startOf("done"), again.Starts()[1].Start)
	begin(t, again, "killed").End("op-3", nil)
	begin(t, again, "lost").End("",
		versioning.NewPlugin("Kind", "a.io/copy").Wrap(status.Error(codes.InvalidArgument, "no")))
	begin(t, again, "done").End("op-1", nil)
	begin(t, again, "old") // an action that has keys in this version
	require.NoError(t, again.Flush(t.Context()))
	want = []string{"killed op-3", "done op-1", "lost in doubt", "old op-2", "old in doubt"}
	require.Equal(t, want, described(again), "only an answer resolves a doubt")

	loaded, err := journals.Load(t.Context(), "u-1")
	require.NoError(t, err)
	require.NoError(t, loaded.Damage())
	require.Equal(t, nightly(), loaded.Owner())
	require.Equal(t, want, described(loaded))
}

func TestEndIsDurableWithTheNextWrite(t *testing.T) {
	t.Parallel()
	a := newAPI()
	j := open(t, a.journals())
	require.NoError(t, j.Flush(t.Context()))
	require.Zero(t, a.writes.Load(), "nothing to write")
	e := begin(t, j, "db")
	e.End("op-1", nil)
	e.End("op-2", nil)
	require.EqualValues(t, 1, a.writes.Load())
	require.Equal(t, []string{"db in doubt"}, described(open(t, a.journals())))
	require.NoError(t, j.Flush(t.Context()))
	require.EqualValues(t, 2, a.writes.Load())
	require.Equal(t, []string{"db op-1"}, described(open(t, a.journals())), "a second end is none")
}

func TestConcurrentBeginsShareAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		a.fail = func() (error, error) { time.Sleep(time.Second); return nil, nil }
		j := open(t, a.journals())
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() { begin(t, j, fmt.Sprint("pvc-", i)) })
		}
		callers.Wait()
		require.EqualValues(t, 2, a.writes.Load())
		require.Len(t, open(t, a.journals()).Starts(), 100)
	})
}

func TestBeginWaitsForThoseWhoseCallsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		j := open(t, a.journals())
		var calls []*operation.Entry
		var callers sync.WaitGroup
		for i := range 4 {
			calls = append(calls, begin(t, j, fmt.Sprint("first-", i)))
		}
		before := a.writes.Load()
		next := func(i int) {
			calls[i].End(fmt.Sprint("op-", i), nil)
			callers.Go(func() { calls[i] = begin(t, j, fmt.Sprint("next-", i)) })
			synctest.Wait()
		}
		began := time.Now()
		next(0)
		require.Equal(t, before, a.writes.Load(), "three others may come")
		next(1)
		callers.Wait()
		require.Equal(t, before+1, a.writes.Load(), "as many have come as may still come")
		require.Zero(t, time.Since(began))

		next(2)
		callers.Wait()
		require.Equal(t, before+2, a.writes.Load(), "no call ends")
		require.Positive(t, time.Since(began))
		require.LessOrEqual(t, time.Since(began), 100*time.Millisecond)

		began = time.Now()
		require.NoError(t, j.Started(t.Context(), startOf("unkeyed"), "op-9"))
		require.Zero(t, time.Since(began), "what has been started is not kept waiting")
	})
}

func TestWriteIsRepeated(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection reset")
	busy := apierrors.NewTooManyRequestsError("busy")
	for name, fail := range map[string]func(n int64) (error, error){
		"requests are lost": func(n int64) (error, error) { return map[bool]error{true: gone}[n%3 != 0], nil },
		"replies are lost":  func(n int64) (error, error) { return nil, map[bool]error{true: gone}[n%3 != 0] },
		"overload":          func(n int64) (error, error) { return map[bool]error{true: busy}[n%2 != 0], nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				a.fail = func() (error, error) { return fail(a.writes.Load()) }
				j := open(t, a.journals())
				begin(t, j, "db").End("op-1", nil)
				begin(t, j, "web").End("op-2", nil)
				require.NoError(t, j.Flush(t.Context()))
				require.Equal(t, []string{"db op-1", "web op-2"}, described(open(t, a.journals())))
				records := 0
				for _, value := range a.pages(t)[0].Data {
					content, _, _ := strings.Cut(value, "\nproof ")
					records += strings.Count(content, "\n")
				}
				require.Equal(t, 4, records, "nothing is doubled")
			})
		})
	}
}

func TestCallerLearnsThatNothingIsRecorded(t *testing.T) {
	t.Parallel()
	a := newAPI()
	j := open(t, a.journals())
	begin(t, j, "db").End("op-1", nil)
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "cleat", errors.New("no"))
	a.fail = func() (error, error) { return forbidden, nil }
	_, err := j.Begin(t.Context(), startOf("web"))
	require.ErrorContains(t, err, "record operations: write ConfigMap velero/cleat-operations-backup-u-1-0: ")
	require.ErrorIs(t, err, forbidden)
	require.Equal(t, []string{"db op-1"}, described(j))

	a.fail = func() (error, error) { return nil, nil }
	require.NoError(t, j.Flush(t.Context()))
	require.Equal(t, []string{"db op-1"}, described(open(t, a.journals())), "the end is not lost, the begin not made up")

	for want, s := range map[string]operation.Start{
		"the start of an operation names no action":                            {Item: pvc("db")},
		`the start of an operation has no resource or no name of an item: "/"`: {Action: "a.io/copy"},
		"the identity of persistentvolumeclaims/shop/db that a.io/copy gets is not JSON": {Action: "a.io/copy",
			Item: pvc("db"), Sent: []byte("{")},
	} {
		_, err := j.Begin(t.Context(), s)
		require.EqualError(t, err, want)
		require.EqualError(t, j.Started(t.Context(), s, "op-1"), want)
	}
}

func TestWaitersOutliveTheWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		var back atomic.Bool
		a.fail = func() (error, error) {
			return map[bool]error{false: errors.New("connection refused")}[back.Load()], nil
		}
		j := open(t, a.journals())
		first, leave := context.WithCancel(t.Context())
		failed, done := make(chan error), make(chan error)
		go func() { _, err := j.Begin(first, startOf("first")); failed <- err }()
		synctest.Wait() // the caller is writing
		for _, name := range []string{"second", "third"} {
			go func() { _, err := j.Begin(t.Context(), startOf(name)); done <- err }()
		}
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-failed, context.Canceled)
		back.Store(true)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.ElementsMatch(t, []string{"second in doubt", "third in doubt"}, described(open(t, a.journals())))
	})
}

func TestLongJournalHasPages(t *testing.T) {
	t.Parallel()
	a := newAPI()
	j := open(t, a.journals())
	long := strings.Repeat("x", 20_000)
	for i := range 40 {
		begin(t, j, fmt.Sprintf("%02d-%s", i, long)).End(fmt.Sprint("op-", i), nil)
		if i%15 == 14 {
			require.NoError(t, j.Flush(t.Context()))
			j = open(t, a.journals()) // the next attempt continues in the last page
		}
	}
	require.NoError(t, j.Flush(t.Context()))
	pages := a.pages(t)
	require.Greater(t, len(pages), 10)
	for _, page := range pages {
		size := 0
		for _, value := range page.Data {
			size += len(value)
		}
		require.Less(t, size, 140_000, page.Name)
		require.Equal(t, map[string]string{"cleat.dev/operations": "backup", "cleat.dev/owner-uid": "u-1",
			"velero.io/exclude-from-backup": "true"}, page.Labels)
	}
	again := open(t, a.journals())
	require.NoError(t, again.Damage())
	require.Len(t, again.Starts(), 40)
	for i, r := range again.Starts() {
		require.Equal(t, fmt.Sprint("op-", i), r.ID)
	}
}

func TestJournalsAreListedAndDeleted(t *testing.T) {
	t.Parallel()
	a := newAPI()
	journals := a.journals()
	begin(t, open(t, journals), "db")
	other := &operation.Owner{Kind: operation.OfRestore, Namespace: "velero", Name: "again", UID: "u-0",
		JSON: []byte(`{}`)}
	j, err := journals.Open(t.Context(), other)
	require.NoError(t, err)
	begin(t, j, "db")
	require.NoError(t, a.Create(t.Context(), controllertest.NewConfigMap("foreign", map[string]string{"a": "b"})))

	owners, err := journals.List(t.Context())
	require.NoError(t, err)
	want := []operation.Owner{*other, *nightly()}
	want[0].JSON, want[1].JSON = nil, nil
	require.Equal(t, want, owners)

	require.NoError(t, journals.Delete(t.Context(), "u-1"))
	require.NoError(t, journals.Delete(t.Context(), "u-1"), "again")
	owners, err = journals.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, want[:1], owners)
	gone, err := journals.Load(t.Context(), "u-1")
	require.NoError(t, err)
	require.Nil(t, gone)
	require.Len(t, a.pages(t), 2)
	begin(t, j, "web")
	require.NoError(t, journals.Delete(t.Context(), "u-0"))
	begin(t, j, "late") // by a server that has an older state
	loaded, err := journals.Load(t.Context(), "u-0")
	require.NoError(t, err)
	require.Equal(t, other, loaded.Owner(), "what is written later is found")
	require.Equal(t, []string{"late in doubt"}, described(loaded))
}

// stripped removes the proofs from the values of a page, and proved adds them, as if a server had written the page in
// this form.
func stripped(page *corev1.ConfigMap) {
	for key, value := range page.Data {
		page.Data[key], _, _ = strings.Cut(value, "\nproof ")
	}
}

func proved(page *corev1.ConfigMap, namespace, name string) {
	key := signing.NewKey([]byte("of tests"))
	for at, value := range page.Data {
		page.Data[at] = value + "\nproof " + key.Sign("journal", "Backup", namespace, name, page.Labels[operation.UIDLabel],
			at, value)
	}
}

func TestDamageOfAJournalIsReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(page *corev1.ConfigMap, first string)
		want   string
		starts []string
	}{
		"cut": {func(p *corev1.ConfigMap, k string) { p.Data[k] = p.Data[k][:len(p.Data[k])-9] },
			"record 1 of write 1 of attempt .*: unexpected end of JSON input", []string{"web op-2"}},
		"empty": {func(p *corev1.ConfigMap, k string) { p.Data[k] = "" },
			"record 1 of write 1 of attempt .*: unexpected end of JSON input", []string{"web op-2"}},
		"no action": {func(p *corev1.ConfigMap, k string) { p.Data[k] = `{"call":1,"begin":{}}` },
			"the start of an operation names no action", []string{"web op-2"}},
		"no begin": {func(p *corev1.ConfigMap, k string) { delete(p.Data, k) },
			"record 1 of write 2 of attempt .*: call 1 has no begin", []string{"web op-2"}},
		"foreign key": {func(p *corev1.ConfigMap, _ string) { p.Data["x"] = "y" },
			`ConfigMap velero/cleat-operations-backup-u-1-0: data has key "x", want "owner" or NUMBER-ATTEMPT`,
			[]string{"db op-1", "web op-2"}},
		"no owner": {func(p *corev1.ConfigMap, _ string) { p.Data["owner"] = "[" },
			"owner: unexpected end of JSON input", []string{"db op-1", "web op-2"}},
		"another owner": {func(p *corev1.ConfigMap, _ string) { p.Data["owner"] = `{"kind":"Restore","uid":"u-9"}` },
			"owner is Restore u-9, want Backup u-1 as in the labels", []string{"db op-1", "web op-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI()
			j := open(t, a.journals())
			begin(t, j, "db").End("op-1", nil)
			begin(t, j, "web").End("op-2", nil)
			require.NoError(t, j.Flush(t.Context()))
			page := a.pages(t)[0]
			var keys []string
			for key := range page.Data {
				keys = append(keys, key)
			}
			stripped(&page)
			test.change(&page, slices.Min(keys))
			proved(&page, "velero", "nightly")
			require.NoError(t, a.Update(t.Context(), &page))
			loaded, err := a.journals().Load(t.Context(), "u-1")
			require.NoError(t, err)
			require.Error(t, loaded.Damage())
			require.Regexp(t, test.want, loaded.Damage().Error())
			require.Equal(t, test.starts, described(loaded))
			require.Equal(t, "nightly", loaded.Owner().Name)
		})
	}
}

// TestJournalKnowsAllThatWasStarted has a random number of attempts, each killed at a random write, before or after it
// took effect. Actions record the requested operations, as plugins do.
func TestJournalKnowsAllThatWasStarted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			a := newAPI()
			running := map[string]string{} // by key, in the plugin
			var mu sync.Mutex
			for range 1 + random.IntN(5) {
				ctx, kill := context.WithCancel(t.Context())
				left, lost := random.IntN(12), random.IntN(2) == 0
				a.fail = func() (error, error) {
					mu.Lock()
					defer mu.Unlock()
					switch left--; {
					case left == 0 && lost:
						kill()
						return nil, context.Canceled
					case left <= 0:
						kill()
						return context.Canceled, nil
					}
					return nil, nil
				}
				j, err := a.journals().Open(t.Context(), nightly())
				require.NoError(t, err)
				require.NoError(t, j.Damage())
				var workers sync.WaitGroup
				for worker := range 3 {
					workers.Go(func() {
						for i := worker; i < 15 && ctx.Err() == nil; i += 3 {
							name := fmt.Sprint("pvc-", i)
							e, err := j.Begin(ctx, startOf(name))
							if err != nil {
								continue
							}
							mu.Lock()
							if running[name] == "" {
								running[name] = fmt.Sprint("op-", len(running))
							}
							id := running[name]
							mu.Unlock()
							if i%5 == 4 {
								e.End("", versioning.NewPlugin("Kind", "a.io/copy").Wrap(status.Error(codes.Unavailable, "died")))
							} else {
								e.End(id, nil)
							}
						}
					})
				}
				workers.Wait()
				kill()
			}
			loaded, err := a.journals().Load(t.Context(), "u-1")
			require.NoError(t, err)
			require.NoError(t, loaded.Damage())
			known := map[string]operation.Recorded{}
			for _, r := range loaded.Starts() {
				known[r.Item.Name] = r
			}
			for name, id := range running {
				r, recorded := known[name]
				require.True(t, recorded, name)
				require.Contains(t, []string{id, ""}, r.ID, name)
			}
		})
	}
}

func TestNilJournalRecordsNothing(t *testing.T) {
	t.Parallel()
	var j *operation.Journal
	begin(t, j, "db").End("op-1", nil)
	require.NoError(t, j.Started(t.Context(), startOf("db"), "op-1"))
	require.NoError(t, j.Flush(t.Context()))
	require.Empty(t, j.Starts())
	require.Nil(t, j.Owner())
	require.NoError(t, j.Damage())
}

func TestJournalOnTheAPIServer(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	journals := operation.NewJournals(c.Client, c.Live, c.Namespace, signing.Fixed(signing.NewKey([]byte("of tests"))),
		hclog.NewNullLogger())
	owner := nightly()
	owner.UID = types.UID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	j, err := journals.Open(t.Context(), owner)
	require.NoError(t, err)
	var callers sync.WaitGroup
	for worker := range 8 {
		callers.Go(func() {
			for i := range 100 {
				name := fmt.Sprintf("pvc-%d-%d-%s", worker, i, strings.Repeat("x", 100))
				e, err := j.Begin(t.Context(), startOf(name))
				if err != nil {
					panic(err)
				}
				e.End("op-"+name, nil)
			}
		})
	}
	callers.Wait()
	require.NoError(t, j.Flush(t.Context()))
	again, err := journals.Load(t.Context(), owner.UID)
	require.NoError(t, err)
	require.NoError(t, again.Damage())
	require.ElementsMatch(t, described(j), described(again), "concurrent ones may be in another order")
	require.Len(t, again.Starts(), 800)
	require.JSONEq(t, string(owner.JSON), string(again.Owner().JSON))
	begin(t, again, "more")

	owners, err := journals.List(t.Context())
	require.NoError(t, err)
	require.Len(t, owners, 1)
	require.Equal(t, owner.UID, owners[0].UID)
	require.Equal(t, "nightly", owners[0].Name)
	require.NoError(t, journals.Delete(t.Context(), owner.UID))
	gone, err := journals.Load(t.Context(), owner.UID)
	require.NoError(t, err)
	require.Nil(t, gone)
	begin(t, again, "late")
	owners, err = journals.List(t.Context())
	require.NoError(t, err)
	require.Len(t, owners, 1, "what is written after the deletion is found")
}

// FuzzJournal checks that no content of a page is fatal.
func FuzzJournal(f *testing.F) {
	f.Add("000001-abc", `{"call":1,"begin":{"action":"a","item":{"Group":"","Resource":"pods","Namespace":"","Name":"x"}},"end":{"id":"1"}}`, `{"kind":"Backup","uid":"u-1"}`)
	f.Add("000001-abc", "{\n", "null")
	f.Fuzz(func(t *testing.T, key, lines, owner string) {
		a := newAPI()
		page := controllertest.NewConfigMap("cleat-operations-backup-u-1-0", map[string]string{key: lines, "owner": owner})
		page.Namespace, page.Labels = "velero", map[string]string{"cleat.dev/operations": "backup",
			"cleat.dev/owner-uid": "u-1"}
		proved(page, "", "")
		require.NoError(t, a.Create(t.Context(), page))
		j, err := a.journals().Load(t.Context(), "u-1")
		require.NoError(t, err)
		require.EqualValues(t, "u-1", j.Owner().UID)
		before := len(j.Starts())
		begin(t, j, "new-one")
		require.GreaterOrEqual(t, len(j.Starts()), before)
		if j.Damage() == nil {
			_, err := json.Marshal(j.Starts())
			require.NoError(t, err)
		}
	})
}

func TestJournalHasTheTimeOfTheFirstCall(t *testing.T) {
	t.Parallel()
	a := newAPI()
	before := time.Now().Truncate(time.Second)
	j := open(t, a.journals())
	begin(t, j, "kept").End("op-1", nil)
	begin(t, j, "lost")
	begin(t, j, "refused").End("", errors.New("not now"))
	require.NoError(t, j.Started(t.Context(), startOf("unkeyed"), "op-2"))
	require.NoError(t, j.Flush(t.Context()))
	first := map[string]time.Time{}
	for _, r := range open(t, a.journals()).Starts() {
		first[r.Item.Name] = r.Began
		require.False(t, r.Began.Before(before), r.Item.Name)
		require.Equal(t, r.Began, r.Operation(time.Time{}).Created)
	}
	require.Len(t, first, 3)

	// A later attempt gets the same operations.
	page := a.pages(t)[0]
	stripped(&page)
	for key, lines := range page.Data {
		page.Data[key] = regexp.MustCompile(`"at":"[^"]*"`).ReplaceAllString(lines, `"at":"2020-01-01T00:00:00Z"`)
	}
	proved(&page, "velero", "nightly")
	require.NoError(t, a.Update(t.Context(), &page))
	again := open(t, a.journals())
	for name, old := range map[string]bool{"kept": true, "lost": true, "refused": false, "new": false} {
		e := begin(t, again, name)
		require.Equal(t, old, e.Began().Year() == 2020, name)
		e.End("op-"+name, nil)
	}
	former := operation.Recorded{Start: startOf("of a former version"), ID: "op-3"}
	require.Equal(t, before, former.Operation(before).Created)
}
