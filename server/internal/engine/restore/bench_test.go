package restore

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// manyThings returns objects of four types in ten namespaces, as an API server returns them.
func manyThings(prefix string, n int) []thing {
	var things []thing
	for i := range 10 {
		things = append(things, namespaceThing(fmt.Sprintf("%s-%d", prefix, i), nil))
	}
	for i := range n {
		ns, name := fmt.Sprintf("%s-%d", prefix, i%10), fmt.Sprintf("item-%d", i)
		meta := func(fields string) obj {
			return obj{
				"uid": "0f3a6f6c-6d6b-4b39-9a54-6b8b6f3f3b11", "resourceVersion": "12345",
				"creationTimestamp": "2026-01-01T00:00:00Z",
				"labels":            obj{"app": "bench", "n": strconv.Itoa(i)},
				"managedFields": []obj{{
					"manager": "kubectl-create", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
					"fieldsType": "FieldsV1",
					"fieldsV1":   json.RawMessage(fields),
				}},
			}
		}
		const labels = `"f:metadata":{"f:labels":{".":{},"f:app":{},"f:n":{}}}`
		switch i % 4 {
		case 0, 1:
			things = append(things, configMap(ns, name, obj{"data": obj{"a": strings.Repeat("x", 200), "b": name},
				"metadata": meta(`{"f:data":{".":{},"f:a":{},"f:b":{}},` + labels + `}`)}))
		case 2:
			things = append(things, in("secrets", "v1", "Secret", ns, name, obj{"type": "Opaque", "data": obj{"k": "dmFsdWU="},
				"metadata": meta(`{"f:data":{".":{},"f:k":{}},"f:type":{},` + labels + `}`)}))
		case 3:
			things = append(things, in("roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "Role", ns, name, obj{
				"rules":    []obj{{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"get"}}},
				"metadata": meta(`{"f:rules":{},` + labels + `}`),
			}))
		}
	}
	return things
}

// bare creates things with a number of workers and returns how long that takes.
func (c *cluster) bare(things []thing, workers int) time.Duration {
	c.t.Helper()
	start := time.Now()
	var group sync.WaitGroup
	next := make(chan thing)
	for range workers {
		group.Go(func() {
			for one := range next {
				if status, body := c.call(http.MethodPost, pathOf(one, false), kubeapi.JSON,
					one.body); status != http.StatusCreated {
					c.t.Errorf("%s: %s", one.name, body)
				}
			}
		})
	}
	for _, one := range things {
		next <- one
	}
	close(next)
	group.Wait()
	return time.Since(start)
}

// requests returns the number of requests that the API server has served, without watches, health and metrics.
func (c *cluster) requests() float64 {
	c.t.Helper()
	status, body := c.call(http.MethodGet, "/metrics", "", nil)
	require.Equal(c.t, http.StatusOK, status)
	total := 0.0
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_request_total{") || strings.Contains(line, `verb="WATCH"`) ||
			strings.Contains(line, "leases") {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		require.NoError(c.t, err)
		total += n
	}
	return total
}

// BenchmarkRestore restores 6,000 objects and reports the time over that of a bare program which creates the
// same objects with the best number of workers, and the API server's requests per restored item. Run it with
// -benchtime 3x or so; each round takes as long as both programs do.
func BenchmarkRestore(b *testing.B) {
	const n = 6000
	c := newCluster(b)
	round := 0
	prefix := func() string { round++; return fmt.Sprintf("bench%d-%x", round, time.Now().UnixNano()&0xffffff) }
	bare := func(workers int) time.Duration {
		things := manyThings(prefix(), n)
		for i, one := range things {
			var o obj
			require.NoError(b, json.Unmarshal(one.body, &o))
			meta := o["metadata"].(obj)
			for _, key := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp"} {
				delete(meta, key)
			}
			things[i].body, _ = json.Marshal(o)
		}
		c.bare(things[:10], 1)
		return c.bare(things[10:], workers)
	}
	best, workers := time.Hour, 0
	for _, try := range []int{4, 8, 16, 32} {
		took := bare(try)
		b.Logf("bare with %d workers: %s", try, took)
		if took < best {
			best, workers = took, try
		}
	}
	var ratio, calls float64
	for b.Loop() {
		limit := bare(workers)
		name := prefix()
		backup := pack(b, manyThings(name, n)...)
		before := c.requests()
		start := time.Now()
		result := c.mustRestore(backup, newRestore(name, func(*velerov1.RestoreSpec) {}))
		took := time.Since(start)
		require.Zero(b, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
		require.Equal(b, n+10, result.Items)
		calls += (c.requests() - before) / float64(result.Items)
		ratio += took.Seconds() / limit.Seconds()
		b.Logf("restore %s, bare %s", took, limit)
	}
	b.ReportMetric(ratio/float64(b.N), "restore/bare")
	b.ReportMetric(calls/float64(b.N), "calls/item")
}
