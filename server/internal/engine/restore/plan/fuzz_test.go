package plan

import "testing"

// FuzzGates reads any objects as those because of which the API server calls services.
func FuzzGates(f *testing.F) {
	for _, text := range []string{"", "null", "[]",
		`{"webhooks":[{"clientConfig":{"service":{}},"rules":[{"operations":["*"]}]}]}`,
		`{"spec":{"group":"g","service":{"name":"a"},"conversion":{"webhook":{"clientConfig":{"service":{}}}}}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		for _, gr := range append(webhookResources, crdsResource, apiServicesResource) {
			_ = Services(gr, raw)
		}
		for _, hook := range hooksOf(raw) {
			anyVersion(&hook)
		}
	})
}
