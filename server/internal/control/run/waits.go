package run

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// WaitsText returns the value of the annotation for the waits in some lists, "" if there are none.
func WaitsText(lists ...*waits.List) string {
	var all []waits.Waiting
	others := 0
	for _, list := range lists {
		oldest, more := list.Longest()
		all, others = append(all, oldest...), others+more
	}
	oldest, more := waits.First(all)
	if len(oldest) == 0 {
		return ""
	}
	shown := velerov1.Waits{Others: others + more}
	for _, w := range oldest {
		one := velerov1.Wait{For: w.For, Because: w.Because, Since: metav1.NewTime(w.Since.UTC())}
		if w.Parts > 1 {
			one.Parts = w.Parts
		}
		shown.Oldest = append(shown.Oldest, one)
	}
	text, err := json.Marshal(shown)
	if err != nil { // strings, numbers and times can always be encoded
		panic(err)
	}
	return string(text)
}

// SetWaits writes the waits of an object to its annotations; "" removes them.
func SetWaits(object client.Object, text string) {
	before := object.GetAnnotations()
	if before[velerov1.WaitsAnnotation] == text {
		return
	}
	annotations := maps.Clone(before)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[velerov1.WaitsAnnotation] = text
	if text == "" {
		delete(annotations, velerov1.WaitsAnnotation)
	}
	object.SetAnnotations(annotations)
}
