package restore

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
)

// TestAcceptGraph_Storms restores random graphs through an API server that refuses, conflicts and fails, and by
// manifests that lie about their archive. It checks the order in which the cluster has got the objects.
func TestAcceptGraph_Storms(t *testing.T) {
	t.Parallel()
	storm := func(code int, reason string) fault {
		return func(w http.ResponseWriter, r *http.Request, n int, _ func()) bool {
			return !isDiscovery(r) && n <= 1+len(r.URL.Path)%3 && r.Method != http.MethodGet && refuse(w, code, reason)
		}
	}
	lost := func(_ http.ResponseWriter, r *http.Request, n int, forward func()) bool {
		if r.Method == http.MethodGet || n > 1 {
			return false
		}
		forward()
		panic(http.ErrAbortHandler)
	}
	for name, tt := range map[string]struct {
		fault fault
		lies  func(item *manifest.Item) (more []*manifest.Item, err error)
	}{
		"calm":         {},
		"409":          {fault: storm(http.StatusConflict, "Conflict")},
		"429":          {fault: storm(http.StatusTooManyRequests, "TooManyRequests")},
		"500":          {fault: storm(http.StatusInternalServerError, "InternalError")},
		"lost replies": {fault: lost},
		"unknown things": {lies: func(item *manifest.Item) ([]*manifest.Item, error) {
			other := *item
			other.Name, other.Resource = "not-there", "nothings"
			item.Edges = append(item.Edges, manifest.Edge{Type: manifest.Reference, Strict: true, To: other.Ref()},
				manifest.Edge{Type: "nonsense", To: manifest.Ref{Kind: "\x00", Name: ""}}, manifest.Edge{})
			return []*manifest.Item{&other, {}}, nil
		}},
		"twice": {lies: func(item *manifest.Item) ([]*manifest.Item, error) { return []*manifest.Item{item, item}, nil }},
		"an error": {lies: func(item *manifest.Item) ([]*manifest.Item, error) {
			if item.Name == "item-020" {
				return nil, errors.New("torn off")
			}
			return nil, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			ns := unique(t, "storm")
			things := manyConfigMaps(ns, 40)
			random := rand.New(rand.NewPCG(uint64(len(name)), 5)) //nolint:gosec // repeatable
			needs := map[int][]int{}                              // without cycles
			for i := 1; i < 40; i++ {
				for range random.IntN(3) {
					needs[i] = append(needs[i], random.IntN(i))
				}
			}
			shuffled := random.Perm(40)
			item := func(i int) string { return fmt.Sprintf("item-%03d", shuffled[i]) }
			graph := func(func(archive.Entry) bool) iter.Seq2[*manifest.Item, error] {
				return func(yield func(*manifest.Item, error) bool) {
					for i := range 40 {
						made := &manifest.Item{APIVersion: "v1", Resource: "configmaps", ItemKind: "ConfigMap", Namespace: ns,
							Name: item(i)}
						for _, to := range needs[i] {
							made.Edges = append(made.Edges, manifest.Edge{Type: manifest.Reference, Strict: true,
								To: manifest.Ref{Resource: "configmaps", Kind: "ConfigMap", Namespace: ns, Name: item(to)}})
						}
						var more []*manifest.Item
						if tt.lies != nil {
							var err error
							if more, err = tt.lies(made); err != nil {
								yield(nil, err)
								return
							}
						}
						for _, one := range append(more, made) {
							if !yield(one, nil) {
								return
							}
						}
					}
				}
			}
			through := *c
			if tt.fault != nil {
				_, through.config = newProxy(t, c, tt.fault)
			}
			result, err := through.restoreBy(t.Context(), pack(t, things...), newRestore("r", nil), testOptions(), graph)
			require.NoError(t, err)
			require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
			require.ElementsMatch(t, createdNames(things), created(result, ""))
			if name == "an error" {
				require.Len(t, result.Results.Warnings.Velero, 1)
				require.Contains(t, result.Results.Warnings.Velero[0], "torn off")
				return
			}
			require.Zero(t, result.Results.Warnings.Count(), "%+v", result.Results)
			list := c.get("/api/v1/namespaces/" + ns + "/configmaps")["items"].([]any)
			version := map[string]int{}
			for _, one := range list {
				n, err := strconv.Atoi(dig(one, "metadata", "resourceVersion").(string))
				require.NoError(t, err)
				version[dig(one, "metadata", "name").(string)] = n
			}
			for i, all := range needs {
				for _, to := range all {
					require.Less(t, version[item(to)], version[item(i)], "%s needs %s", item(i), item(to))
				}
			}
		})
	}
}
