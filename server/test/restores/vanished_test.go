package restores_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/site"
)

// barriers let a number of creations of a resource in a namespace pass, and hold all others until they are opened.
type barriers struct {
	mu   sync.Mutex
	some []*barrier
}

type barrier struct {
	path    string
	passing int32
	seen    atomic.Int32
	reached chan struct{}
	opened  chan struct{}
}

func (b *barriers) add(path string, passing int32) *barrier {
	one := &barrier{path: path, passing: passing, reached: make(chan struct{}), opened: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.some = append(b.some, one)
	return one
}

// answer is the Answer of a gate: it holds requests, and answers none.
func (b *barriers) answer(_ http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	b.mu.Lock()
	some := b.some
	b.mu.Unlock()
	for _, one := range some {
		if !strings.HasSuffix(r.URL.Path, one.path) {
			continue
		}
		n := one.seen.Add(1)
		if n == one.passing+1 {
			close(one.reached)
		}
		if n > one.passing {
			<-one.opened
		}
	}
	return false
}

// TestAcceptRestore_WhatVanished deletes what a restore has created, or needs, in the middle of the restore.
func TestAcceptRestore_WhatVanished(t *testing.T) {
	t.Parallel()
	const objects, passing = 60, 25
	all, g := site.NewGated(t)
	held := &barriers{}
	g.Answer = held.answer
	all.Serve()
	all.Available()

	remove := func(s *site.Site, o *unstructured.Unstructured) {
		require.NoError(s.T, s.Client.Delete(s.T.Context(), o))
		s.Eventually("it is gone", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy())
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}
	ended := func(s *site.Site, name string) results.Results {
		restore := s.AwaitEndOfRestore(name)
		require.Equal(s.T, velerov1.RestorePhasePartiallyFailed, restore.Status.Phase, restore.Status.FailureReason)
		return site.ReadJSON[results.Results](s.T, s, "restores", name, "restore-"+name+"-results.gz")
	}

	t.Run("the namespace", func(t *testing.T) {
		t.Parallel()
		s := all.In(t)
		ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: cove-}}`).GetName()
		for i := range objects {
			s.Put(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: s%02d, namespace: %s}}`, i, ns))
		}
		s.Must("backup", "create", "namespace", "--include-namespaces", ns, "--wait")
		into := ns + "-2"
		gate := held.add("/namespaces/"+into+"/secrets", passing)
		s.Must("restore", "create", "namespace", "--from-backup", "namespace", "--namespace-mappings", ns+":"+into)
		<-gate.reached
		remove(s, s.Object(`{apiVersion: v1, kind: Namespace, metadata: {name: `+into+`}}`))
		close(gate.opened)
		found := ended(s, "namespace")
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
		require.NoError(t, s.Client.List(t.Context(), list, client.InNamespace(into)))
		require.Less(t, len(list.Items), objects)
		said := strings.Join(found.Errors.Namespaces[into], "\n")
		require.Contains(t, said, fmt.Sprintf("namespace %s was deleted during the restore and created again: of %d secrets "+
			"that were restored, %d are not there any more: ", into, objects, objects-len(list.Items)))
		require.Contains(t, s.Must("restore", "describe", "namespace"), " secrets that were restored, ")
	})

	t.Run("the definition", func(t *testing.T) {
		t.Parallel()
		s := all.In(t)
		group := strings.ReplaceAll(s.Namespace, "-", "") + "v.example.com"
		definition := s.Define(group, "crates", "Crate", "{type: object, x-kubernetes-preserve-unknown-fields: true}")
		ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: cove-}}`).GetName()
		for i := range objects {
			s.Put(fmt.Sprintf(`{apiVersion: %s/v1, kind: Crate, metadata: {name: c%02d, namespace: %s}}`, group, i, ns))
		}
		s.Must("backup", "create", "definition", "--include-namespaces", ns, "--wait")
		remove(s, definition)
		into := ns + "-2"
		gate := held.add("/namespaces/"+into+"/crates", passing)
		s.Must("restore", "create", "definition", "--from-backup", "definition", "--namespace-mappings", ns+":"+into)
		<-gate.reached
		s.Eventually("those that pass are created", func(ctx context.Context) (bool, error) {
			list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Crate"}}
			err := s.Client.List(ctx, list, client.InNamespace(into))
			return len(list.Items) == passing, err
		})
		remove(s, definition)
		close(gate.opened)
		found := ended(s, "definition")
		said := found.Errors.Namespaces[into]
		require.Len(t, said, objects-passing+1, "%+v", said)
		require.Contains(t, strings.Join(said, "\n"),
			fmt.Sprintf("the definition crates.%s was deleted during the restore: of "+
				"%d crates.%s that were restored, %d are not there any more: ", group, passing, group, passing))
		require.Contains(t, strings.Join(said, "\n"), "the definition crates."+group+
			" was deleted during the restore; restore again")
		require.EqualValues(t, objects, gate.seen.Load(), "nothing is repeated for a definition that is gone")
	})
}
