package status

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Cause is a group of errors or warnings with the same end, which is what has caused them.
type Cause struct {
	Cause    string   `json:"cause"`
	Count    int      `json:"count"`
	Messages []string `json:"messages"` // the first ones
	More     int      `json:"more,omitempty"`
}

// mostMessages is the number of messages of a cause.
const mostMessages = 50

// Causes groups the messages of a run that contain a text: those with most messages first.
func Causes(r *results.Result, search string) []Cause {
	found := map[string]*Cause{}
	add := func(where string, messages []string) {
		for _, message := range messages {
			message = layout.OneLine(message)
			if where != "" {
				message = where + ": " + message
			}
			if !strings.Contains(strings.ToLower(message), strings.ToLower(search)) {
				continue
			}
			cause := causeOf(message)
			c := found[cause]
			if c == nil {
				c = &Cause{Cause: cause}
				found[cause] = c
			}
			if c.Count++; len(c.Messages) < mostMessages {
				c.Messages = append(c.Messages, message)
			} else {
				c.More++
			}
		}
	}
	add("", r.Velero)
	add("cluster", r.Cluster)
	for namespace, messages := range r.Namespaces {
		add("namespace "+namespace, messages)
	}
	causes := make([]Cause, 0, len(found))
	for _, c := range found {
		slices.Sort(c.Messages)
		causes = append(causes, *c)
	}
	slices.SortFunc(causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause))
	})
	return causes
}

// causeOf returns the last clause of a message: errors are wrapped from the left.
func causeOf(message string) string {
	if at := strings.LastIndex(message, ": "); at >= 0 && at+2 < len(message) {
		return message[at+2:]
	}
	return message
}
