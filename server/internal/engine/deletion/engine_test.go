package deletion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/deletion"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/versioning/deleteitemaction"
)

// forget is an action that notes the names of its items.
type forget struct {
	selector framework.ResourceSelector
	unsure   error // of AppliesTo
	fails    func(call int) error
	seen     *[]string
}

func (forget) Name() string { return "example.io/forget" }

func (f forget) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return f.selector, f.unsure
}

func (f forget) Execute(_ context.Context, raw, backup []byte) error {
	*f.seen = append(*f.seen, fmt.Sprintf("%s of %s", raw, backup[:1]))
	if f.fails != nil {
		return f.fails(len(*f.seen))
	}
	return nil
}

const (
	web = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web","labels":{"app":"web"}}}`
	db  = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"db"}}`
)

// open returns a function that opens an archive with n pods beside web and db.
func open(t *testing.T, n int) func(context.Context) (*archive.Archive, error) {
	t.Helper()
	var file bytes.Buffer
	w, err := archive.NewWriter(&file, time.Now())
	require.NoError(t, err)
	pods := schema.GroupResource{Resource: "pods"}
	require.NoError(t, w.Item(pods, "v1", true, "shop", "web", []byte(web)))
	require.NoError(t, w.Item(pods, "v1", true, "shop", "db", []byte(db)))
	for i := range n {
		name := fmt.Sprintf("more-%02d", i)
		require.NoError(t, w.Item(pods, "v1", true, "shop", name,
			[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"`+name+`"}}`)))
	}
	require.NoError(t, w.Close())
	return func(ctx context.Context) (*archive.Archive, error) {
		return archive.Open(ctx, &file, t.TempDir(), archive.Options{})
	}
}

func run(ctx context.Context, request deletion.Request) error {
	list := &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "pods", ShortNames: []string{"po"}, Kind: "Pod", Namespaced: true,
			Verbs: metav1.Verbs{"list", "create", "get", "delete"}},
	}}
	version := metav1.GroupVersionForDiscovery{GroupVersion: "v1", Version: "v1"}
	group := &metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
	deps := deletion.Deps{Resources: func(context.Context) (*discovery.Snapshot, error) {
		return discovery.NewSnapshot([]*metav1.APIGroup{group}, []*metav1.APIResourceList{list}), nil
	}}
	request.Backup, request.Log = &velerov1.Backup{}, hclog.NewNullLogger()
	return deletion.Run(ctx, deps, request)
}

func TestActionsSeeTheItemsTheyApplyTo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selector framework.ResourceSelector
		want     []string
	}{
		"all": {framework.ResourceSelector{}, []string{db + " of {", web + " of {"}},
		"by label": {framework.ResourceSelector{IncludedResources: []string{"po"}, LabelSelector: "app=web"},
			[]string{web + " of {"}},
		"another resource":   {framework.ResourceSelector{IncludedResources: []string{"secrets"}}, nil},
		"another namespace":  {framework.ResourceSelector{IncludedNamespaces: []string{"billing"}}, nil},
		"excluded namespace": {framework.ResourceSelector{ExcludedNamespaces: []string{"shop"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []string
			require.NoError(t, run(t.Context(), deletion.Request{
				Actions: []deleteitemaction.Action{forget{selector: test.selector, seen: &seen}}, Open: open(t, 0),
			}))
			require.Equal(t, test.want, seen)
		})
	}
}

func TestFailuresDoNotStopOthers(t *testing.T) {
	t.Parallel()
	var seen []string
	err := run(t.Context(), deletion.Request{Open: open(t, 30), Actions: []deleteitemaction.Action{
		forget{seen: &seen, fails: func(call int) error { return fmt.Errorf("call %d", call) }},
		forget{seen: &seen},
	}})
	var failures *deletion.Failures
	require.ErrorAs(t, err, &failures)
	require.Len(t, seen, 64)
	require.EqualError(t, err, "plugins failed in 32 calls for items of the backup, the first time for pods/shop/db: "+
		"call 1")
	messages := failures.Messages()
	require.Len(t, messages, 22)
	require.Equal(t, "pods/shop/db: call 1", messages[0])
	require.Equal(t, "and 12 more failures, which are in the log of the server", messages[20])
}

// No action deletes something for an object that pretends to be another one.
func TestActionsSeeNothingUnderAForeignPath(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]string{
		"another kind":      `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"web"}}`,
		"another group":     `{"apiVersion":"apps/v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}`,
		"another name":      `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"db"}}`,
		"another namespace": `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"bank","name":"web"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var file bytes.Buffer
			w, err := archive.NewWriter(&file, time.Now())
			require.NoError(t, err)
			require.NoError(t, w.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "shop", "web", []byte(object)))
			require.NoError(t, w.Close())
			var seen []string
			err = run(t.Context(), deletion.Request{
				Actions: []deleteitemaction.Action{forget{selector: framework.ResourceSelector{IncludedResources: []string{"pods"}},
					seen: &seen}},
				Open: func(ctx context.Context) (*archive.Archive, error) {
					return archive.Open(ctx, &file, t.TempDir(), archive.Options{})
				},
			})
			require.ErrorContains(t, err, "pods/shop/web")
			require.Empty(t, seen)
		})
	}
}

func TestDeletionEndsBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	opens := func(t *testing.T) func(context.Context) (*archive.Archive, error) {
		t.Helper()
		return open(t, 0)
	}
	for name, test := range map[string]struct {
		unsure error
		open   func(*testing.T) func(context.Context) (*archive.Archive, error)
		ended  bool
		want   string // error, empty for none
	}{
		"an action that cannot say what it applies to": {unsure: errors.New("no idea"), open: opens,
			want: "ask what the action applies to: no idea"},
		"no archive": {open: func(*testing.T) func(context.Context) (*archive.Archive, error) {
			return func(context.Context) (*archive.Archive, error) { return nil, nil }
		}},
		"an archive that cannot be read": {open: func(t *testing.T) func(context.Context) (*archive.Archive, error) {
			t.Helper()
			return func(ctx context.Context) (*archive.Archive, error) {
				return archive.Open(ctx, bytes.NewReader([]byte("garbage")), t.TempDir(), archive.Options{})
			}
		}, want: "read the items for which plugins have to be called: "},
		"the server stops": {open: opens, ended: true, want: "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			var seen []string
			open := test.open(t)
			err := run(ctx, deletion.Request{
				Actions: []deleteitemaction.Action{forget{unsure: test.unsure, seen: &seen}},
				Open: func(ctx context.Context) (*archive.Archive, error) {
					items, err := open(ctx)
					if test.ended {
						cancel()
					}
					return items, err
				},
			})
			cancel()
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
			require.Empty(t, seen)
		})
	}
}

func TestArchiveIsReadForActionsOnly(t *testing.T) {
	t.Parallel()
	require.NoError(t, run(t.Context(), deletion.Request{Open: func(context.Context) (*archive.Archive, error) {
		require.Fail(t, "without actions there is no reason to read the archive")
		return nil, nil
	}}))
}
