package rawitem_test

import (
	"fmt"

	"github.com/cleat-dev/cleat/framework/rawitem"
)

func ExampleSetLabel() {
	item := []byte(`{"kind":"Secret","metadata":{"name":"tls","labels":{"app":"shop"}}}`)
	labelled, err := rawitem.SetLabel(item, "seen", "true")
	fmt.Println(string(labelled), err)
	// Output: {"kind":"Secret","metadata":{"name":"tls","labels":{"seen":"true","app":"shop"}}} <nil>
}
