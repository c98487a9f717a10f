package results

import "strings"

// Message is what went wrong with one object. Empty parts are left out when it is rendered.
type Message struct {
	Resource string // "resource.group", e.g. "deployments.apps"
	Name     string // without the namespace, which the result is filed under
	Text     string // what was being done
	Err      error  // why it failed
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
