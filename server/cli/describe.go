package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/results"
)

// description is text of lines "Key:  value", indented by sections. The values of one section are
// aligned.
type description struct {
	w      io.Writer
	indent int
	err    error
}

// line writes one line.
func (d *description) line(format string, args ...any) {
	if d.err != nil {
		return
	}
	_, d.err = fmt.Fprintln(d.w, strings.TrimRight(strings.Repeat("  ", d.indent)+fmt.Sprintf(format, args...), " "))
}

// gap writes an empty line.
func (d *description) gap() { d.line("") }

// pairs writes keys and values, aligned. A value of several lines goes on below itself.
func (d *description) pairs(pairs ...[2]string) {
	width := 0
	for _, pair := range pairs {
		width = max(width, len(pair[0]))
	}
	for _, pair := range pairs {
		for i, text := range strings.Split(pair[1], "\n") {
			key := pair[0] + ":"
			if i > 0 {
				key = ""
			}
			d.line("%-*s  %s", width+1, key, text)
		}
	}
}

// section writes a head and, further in, what body writes.
func (d *description) section(head string, body func()) {
	d.line("%s:", head)
	d.indent++
	body()
	d.indent--
}

// metadata writes what every object has.
func (d *description) metadata(m *metav1.ObjectMeta) {
	d.pairs([2]string{"Name", m.Name}, [2]string{"Namespace", m.Namespace},
		[2]string{"Labels", lined(m.Labels)}, [2]string{"Annotations", lined(m.Annotations)})
}

// lined is a map as lines of "key=value".
func lined(m map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+m[key])
	}
	return orNone(strings.Join(lines, "\n"))
}

// listed is a list of names.
func listed(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

// optional is a switch that may be left open.
func optional(b *bool) string {
	if b == nil {
		return "auto"
	}
	return fmt.Sprint(*b)
}

// messages writes errors or warnings by what they are about.
func (d *description) messages(head string, r results.Result) {
	d.section(head, func() {
		each := func(name string, texts []string) {
			if len(texts) == 0 {
				return
			}
			d.section(name, func() {
				for _, text := range texts {
					d.line("%s", strings.TrimSpace(text))
				}
			})
		}
		each("Server", r.Velero)
		each("Cluster", r.Cluster)
		for _, namespace := range slices.Sorted(maps.Keys(r.Namespaces)) {
			each("Namespace "+namespace, r.Namespaces[namespace])
		}
	})
}

// resources writes the objects of a backup or restore by kind.
func (d *description) resources(list map[string][]string) {
	d.section("Resource List", func() {
		if len(list) == 0 {
			d.line("<none>")
		}
		for _, kind := range slices.Sorted(maps.Keys(list)) {
			d.section(kind, func() {
				for _, name := range list[kind] {
					d.line("- %s", name)
				}
			})
		}
	})
}
