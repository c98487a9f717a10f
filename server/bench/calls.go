package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// auditPolicy makes the API server log every request once, when it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

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
