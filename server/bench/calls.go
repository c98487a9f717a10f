package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// auditPolicy makes the API server log every request once, when it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

// callsPerRestoredItem reports the number of requests that the server makes from the creation of a Restore to its end,
// according to the API server's audit log, divided by the number of restored items.
func callsPerRestoredItem(ctx context.Context, cleat string, report func(string, float64)) (err error) {
	dir, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	s, err := newSite(ctx, cleat, "--audit-policy-file="+policy, "--audit-log-path="+log,
		"--audit-log-mode=blocking-strict")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	server, err := s.prepareRestore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	var ratios []float64
	for run := range runs {
		prefix := fmt.Sprintf("run%d", run)
		began := time.Now()
		if _, err := s.restoreInto(ctx, prefix); err != nil {
			return err
		}
		ended := time.Now()
		restored, err := s.itemsRestored(ctx, prefix)
		if err != nil {
			return err
		}
		calls, verbs, err := callsBetween(log, began, ended)
		if err != nil {
			return err
		}
		ratios = append(ratios, float64(calls)/float64(restored))
		say("%d calls for %d items: %v", calls, restored, verbs)
	}
	report("calls_per_restored_item", median(ratios))
	return nil
}

func (s *site) itemsRestored(ctx context.Context, name string) (int64, error) {
	o, err := s.get(ctx, "restores", name)
	if err != nil {
		return 0, err
	}
	n, _, err := unstructured.NestedInt64(o.Object, "status", "progress", "itemsRestored")
	if err == nil && n == 0 {
		err = errors.New("no item was restored")
	}
	return n, err
}

// callsBetween counts the server's requests in an audit log, in total and by verb. The only other clients are the
// control plane's components and this program, which are excluded by their user agents. The server has no user agent of
// its own, because it creates an object in the name of its manager.
func callsBetween(log string, began, ended time.Time) (int, map[string]int, error) {
	file, err := os.Open(log)
	if err != nil {
		return 0, nil, err
	}
	defer file.Close()
	total, verbs := 0, map[string]int{}
	self := filepath.Base(os.Args[0]) + "/"
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, UserAgent          string
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return 0, nil, fmt.Errorf("audit log: %w", err)
		}
		if strings.HasPrefix(event.UserAgent, "kube-") || strings.HasPrefix(event.UserAgent, self) {
			continue
		}
		if event.RequestReceivedTimestamp.After(began) && event.RequestReceivedTimestamp.Before(ended) {
			total++
			verbs[event.Verb]++
		}
	}
	return total, verbs, lines.Err()
}
