package cli

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/results"
)

// metadata writes what every object has.
func printMetadata(d *description, m *metav1.ObjectMeta) {
	d.pairs([2]string{"Name", m.Name}, [2]string{"Namespace", m.Namespace},
		[2]string{"Labels", keyValues(m.Labels)}, [2]string{"Annotations", keyValues(m.Annotations)})
}

func printValidationErrors(d *description, errs []string) {
	if len(errs) == 0 {
		return
	}
	d.gap()
	d.section("Validation errors", func() {
		for _, text := range errs {
			d.line("%s", text)
		}
	})
}

func printResults(d *description, r *results.Results) {
	if r == nil {
		return
	}
	if r.Errors.Count() > 0 {
		d.gap()
		printMessages(d, "Errors", r.Errors)
	}
	if r.Warnings.Count() > 0 {
		d.gap()
		printMessages(d, "Warnings", r.Warnings)
	}
}

// messages writes errors or warnings by what they are about.
func printMessages(d *description, head string, r results.Result) {
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
func printResources(d *description, list map[string][]string) {
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

func printProblems(d *description, problems []string) {
	if len(problems) == 0 {
		return
	}
	d.gap()
	d.section("Not found out", func() {
		for _, text := range problems {
			d.line("%s", text)
		}
	})
}
