package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// maxAnnotation is how many bytes of an annotation are shown, as in "kubectl describe". "get -o yaml" shows all.
const maxAnnotation = 140

// printMetadata writes the metadata that every object has.
func printMetadata(d *layout.Description, m *metav1.ObjectMeta) {
	annotations := map[string]string{}
	for key, value := range m.Annotations {
		annotations[key] = shorten.Text(layout.OneLine(value), maxAnnotation)
	}
	d.Pairs([2]string{"Name", m.Name}, [2]string{"Namespace", m.Namespace},
		[2]string{"Labels", layout.KeyValues(m.Labels)}, [2]string{"Annotations", layout.KeyValues(annotations)})
}

// selectorLines returns the lines about label selectors.
func selectorLines(one *metav1.LabelSelector, alternatives []*metav1.LabelSelector) [][2]string {
	or := "<none>"
	if len(alternatives) > 0 {
		or = formatSelector(nil, alternatives)
	}
	return [][2]string{{"Label selector", formatSelector(one, nil)}, {"Or label selector", or}}
}

// printPolicies writes which ConfigMaps hold resource policies.
func printPolicies(d *layout.Description, own *velerov1.TypedLocalObjectReference, global string) {
	printReference(d, "Resource policies", own)
	if global != "" {
		printReference(d, "Global volume policies", &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: global})
	}
}

func printReference(d *layout.Description, head string, r *velerov1.TypedLocalObjectReference) {
	if r != nil {
		d.Gap()
		d.Section(head, func() { d.Pairs([2]string{"Type", r.Kind}, [2]string{"Name", r.Name}) })
	}
}

// moverOr returns the name of a data mover, that of the built-in one for the empty name.
func moverOr(name string) string { return cmp.Or(name, "velero") }

// attempts returns the line about a run that was started more than once, because a server was stopped or killed.
func attempts(object metav1.Object) [][2]string {
	attempt := velerov1.AttemptOf(object)
	if attempt == 1 {
		return nil
	}
	return [][2]string{{"Attempt", fmt.Sprintf("%d; the server was stopped or killed in the attempt before", attempt)}}
}

// printValidationErrors writes the validation errors of a backup or restore, or the result of a dry run.
func printValidationErrors(d *layout.Description, object metav1.Object, errs []string) {
	if len(errs) == 0 {
		return
	}
	d.Gap()
	head := "Validation errors"
	if velerov1.IsDryRun(object) {
		head = "Dry run"
	}
	d.Section(head, func() {
		for _, text := range errs {
			d.Line("%s", text)
		}
	})
}

func printResults(d *layout.Description, r *results.Results) {
	if r == nil {
		return
	}
	if r.Errors.Count() > 0 {
		d.Gap()
		printMessages(d, "Errors", r.Errors)
	}
	if r.Warnings.Count() > 0 {
		d.Gap()
		printMessages(d, "Warnings", r.Warnings)
	}
}

// printMessages writes errors or warnings, grouped by namespace.
func printMessages(d *layout.Description, head string, r results.Result) {
	d.Section(head, func() {
		each := func(name string, texts []string) {
			if len(texts) == 0 {
				return
			}
			d.Section(name, func() {
				for _, text := range texts {
					d.Line("%s", strings.TrimSpace(text))
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

// printResources writes the objects of a backup or restore, grouped by kind.
func printResources(d *layout.Description, list map[string][]string) {
	d.Section("Resource List", func() {
		if len(list) == 0 {
			d.Line("<none>")
		}
		for _, kind := range slices.Sorted(maps.Keys(list)) {
			d.Section(kind, func() {
				for _, name := range list[kind] {
					d.Line("- %s", name)
				}
			})
		}
	})
}

func printProblems(d *layout.Description, problems []string) {
	if len(problems) == 0 {
		return
	}
	d.Gap()
	d.Section("Could not be determined", func() {
		for _, text := range problems {
			d.Line("%s", text)
		}
	})
}
