package results

import "strings"

// Message describes an error or a warning about one object. String omits empty parts.
type Message struct {
	Resource string // "resource.group", e.g. "deployments.apps"
	Name     string // without the namespace, which is the key in the results
	Text     string // the action that failed
	Err      error  // the cause
}

// String renders the message as Velero does: " resource: /pods name: /web message: /... error: /...".
func (m Message) String() string {
	var b strings.Builder
	part := func(key, value string) {
		if value != "" {
			b.WriteString(" " + key + ": /" + value)
		}
	}
	part("resource", m.Resource)
	part("name", m.Name)
	part("message", m.Text)
	if m.Err != nil {
		part("error", m.Err.Error())
	}
	return b.String()
}
