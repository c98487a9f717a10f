package manifest

import (
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/framework/internal/rawjson"
)

// appendItem appends an item as a line of the manifest: what encoding/json makes of it without escaping for HTML, at a
// third of the time, because the items of a backup are encoded while it runs.
func appendItem(to []byte, item *Item) []byte {
	o := members{to: append(to, '{')}
	o.optional("group", item.APIGroup)
	o.text("version", item.APIVersion)
	o.text("resource", item.Resource)
	o.text("kind", item.ItemKind)
	o.optional("namespace", item.Namespace)
	o.text("name", item.Name)
	o.optional("uid", item.UID)
	o.texts("labels", item.Labels)
	o.texts("annotations", item.Annotations)
	if len(item.OwnerUIDs) > 0 {
		o.key("owners")
		list(&o, item.OwnerUIDs, func(owner string) { o.quote(owner) })
	}
	if len(item.Edges) > 0 {
		o.key("edges")
		list(&o, item.Edges, func(edge Edge) {
			o.begin()
			o.text("type", string(edge.Type))
			if edge.Strict {
				o.key("strict")
				o.to = append(o.to, "true"...)
			}
			o.ref("to", &edge.To)
			o.optional("path", edge.Path)
			o.optional("plugin", edge.Plugin)
			o.end()
		})
	}
	if included := item.Included; included != (Inclusion{}) {
		o.key("included")
		o.begin()
		o.text("by", included.By)
		o.optional("plugin", included.Plugin)
		if included.Of != nil {
			o.ref("of", included.Of)
		}
		o.end()
	}
	o.end()
	return o.to
}

// members appends the members of a JSON object.
type members struct{ to []byte }

func (o *members) begin() { o.to = append(o.to, '{') }
func (o *members) end()   { o.to = append(o.to, '}') }

// key appends the name of a member, which needs no escaping.
func (o *members) key(name string) {
	if o.to[len(o.to)-1] != '{' {
		o.to = append(o.to, ',')
	}
	o.to = append(append(append(o.to, '"'), name...), `":`...)
}

func (o *members) quote(text string) { o.to = rawjson.AppendText(o.to, text) }

func (o *members) text(name, value string) {
	o.key(name)
	o.quote(value)
}

func (o *members) optional(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *members) texts(name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	o.key(name)
	o.begin()
	keys := make([]string, 0, 16) // on the stack
	keys = slices.AppendSeq(keys, maps.Keys(values))
	slices.Sort(keys)
	for i, key := range keys {
		if i > 0 {
			o.to = append(o.to, ',')
		}
		o.quote(key)
		o.to = append(o.to, ':')
		o.quote(values[key])
	}
	o.end()
}

func (o *members) ref(name string, to *Ref) {
	o.key(name)
	o.begin()
	o.optional("group", to.Group)
	o.optional("resource", to.Resource)
	o.optional("kind", to.Kind)
	o.optional("namespace", to.Namespace)
	o.text("name", to.Name)
	o.optional("uid", to.UID)
	o.end()
}

// list appends an array.
func list[T any](o *members, values []T, value func(T)) {
	o.to = append(o.to, '[')
	for i, v := range values {
		if i > 0 {
			o.to = append(o.to, ',')
		}
		value(v)
	}
	o.to = append(o.to, ']')
}
