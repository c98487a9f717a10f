package plan

import (
	"cmp"
	"encoding/json"
	"slices"
	"sort"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/kube/webhook"
)

// gate is an item because of which the API server calls services of the cluster when it creates others: a configuration
// of admission webhooks, an aggregated API, or a definition with a conversion webhook. Definitions without one are
// gates that call nothing.
type gate struct {
	item       int32
	definition bool
	hooks      []webhook.Webhook // of a configuration: those without which the creation of an object fails
	services   []Service         // that it calls
	backends   []int32           // the items of these services, and of what serves them
	waiting    []int32           // the items that the gate is for, sorted
}

// Service names a service that the API server calls.
type Service struct{ Namespace, Name string }

// String names the service.
func (s Service) String() string { return "service " + s.Namespace + "/" + s.Name }

var (
	servicesResource    = schema.GroupResource{Resource: "services"}
	apiServicesResource = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
	webhookResources    = []schema.GroupResource{
		{Group: admissionv1.GroupName, Resource: "mutatingwebhookconfigurations"},
		{Group: admissionv1.GroupName, Resource: "validatingwebhookconfigurations"},
	}
	// servingResources are the resources of pods, and of what makes pods.
	servingResources = []schema.GroupResource{
		{Resource: "pods"},
		{Resource: "replicationcontrollers"},
		{Group: "apps", Resource: "daemonsets"},
		{Group: "apps", Resource: "deployments"},
		{Group: "apps", Resource: "replicasets"},
		{Group: "apps", Resource: "statefulsets"},
		{Group: "apps.openshift.io", Resource: "deploymentconfigs"},
	}
)

// IsGate reports whether the API server may call services because of objects of a resource when it creates others.
func IsGate(gr schema.GroupResource) bool {
	return gr == crdsResource || gr == apiServicesResource || slices.Contains(webhookResources, gr)
}

// neverGated reports whether objects of a resource wait for no webhook: what serves a webhook may need them without
// naming them.
func neverGated(gr schema.GroupResource) bool {
	return gr == crdsResource || gr == apiServicesResource || gr.Group == "rbac.authorization.k8s.io"
}

// Services returns the services that the API server calls because of an object when it creates other objects.
func Services(gr schema.GroupResource, raw []byte) []Service {
	var called []Service
	add := func(namespace, name string) {
		if s := (Service{namespace, name}); !slices.Contains(called, s) {
			called = append(called, s)
		}
	}
	switch {
	case slices.Contains(webhookResources, gr):
		for _, hook := range hooksOf(raw) {
			add(hook.ClientConfig.Service.Namespace, hook.ClientConfig.Service.Name)
		}
	case gr == apiServicesResource:
		if called := decodeAPIService(raw).Spec.Service; called != nil {
			add(called.Namespace, called.Name)
		}
	case gr == crdsResource:
		if called := decodeDefinition(raw).Spec.Conversion.Webhook.ClientConfig.Service; called != nil {
			add(called.Namespace, called.Name)
		}
	}
	return called
}

// hooksOf returns the webhooks of a configuration that the API server calls in the cluster when an object is created,
// and without which the creation fails.
func hooksOf(raw []byte) []webhook.Webhook {
	var configuration webhook.Configuration
	if json.Unmarshal(raw, &configuration) != nil {
		return nil // its restore reports it
	}
	return slices.DeleteFunc(configuration.Webhooks, func(hook webhook.Webhook) bool {
		return !hook.Fails() || hook.ClientConfig.Service == nil ||
			!slices.ContainsFunc(hook.Rules, func(rule admissionv1.RuleWithOperations) bool {
				return slices.Contains(rule.Operations, admissionv1.Create) || slices.Contains(rule.Operations, "*")
			})
	})
}

type apiService struct {
	Spec struct {
		Group   string
		Service *Service
	}
}

func decodeAPIService(raw []byte) (a apiService) {
	if json.Unmarshal(raw, &a) != nil {
		return apiService{}
	}
	return a
}

type definition struct {
	Spec struct {
		Group      string
		Names      struct{ Plural string }
		Conversion struct {
			Webhook struct{ ClientConfig struct{ Service *Service } }
		}
	}
}

func decodeDefinition(raw []byte) (d definition) {
	if json.Unmarshal(raw, &d) != nil {
		return definition{}
	}
	return d
}

// AddGates adds the dependencies that follow from what the API server calls when it creates an object. Custom resources
// need their definition, the resources of an aggregated API its APIService, and what a webhook can refuse its
// configuration; configurations and APIServices need what serves them. target returns the namespace into which one
// is restored. AddGates comes after AddLevel and before AddEdges.
func (o *Order) AddGates(backup *archive.Archive, target func(namespace string) string) error {
	o.backup, o.sources = backup, map[string][]string{}
	for _, source := range backup.Namespaces() {
		o.sources[target(source)] = append(o.sources[target(source)], source)
	}
	backends := map[Service][]int32{} // one service often serves many definitions
	for _, gr := range slices.Concat([]schema.GroupResource{crdsResource, apiServicesResource}, webhookResources) {
		begin, end := o.Span(gr)
		for i := begin; i < end; i++ {
			raw, err := backup.Read(o.Item(i))
			if err != nil {
				return err
			}
			made := gate{item: int32(i), services: Services(gr, raw)} //nolint:gosec // order.MaxItems
			switch gr {
			case crdsResource:
				spec := decodeDefinition(raw).Spec
				made.definition = true
				o.addSpan(&made, schema.GroupResource{Group: spec.Group, Resource: spec.Names.Plural})
			case apiServicesResource:
				if len(made.services) == 0 {
					continue // the API server's own
				}
				group := decodeAPIService(raw).Spec.Group
				o.aggregated = append(o.aggregated, group)
				for served := range o.at {
					if served.Group == group {
						o.addSpan(&made, served)
					}
				}
				slices.Sort(made.waiting)
			default:
				made.hooks = hooksOf(raw)
				for h := range made.hooks {
					anyVersion(&made.hooks[h])
				}
			}
			for _, called := range made.services {
				if _, known := backends[called]; !known {
					if backends[called], err = o.backendsOf(called); err != nil {
						return err
					}
				}
				made.backends = append(made.backends, backends[called]...)
			}
			o.gates = append(o.gates, made)
		}
	}
	return nil
}

// Calling returns the number of items because of which the API server calls services.
func (o *Order) Calling() (n int) {
	for i := range o.gates {
		if len(o.gates[i].services) > 0 {
			n++
		}
	}
	return n
}

// Aggregates reports whether an APIService of the plan has a service of the cluster serve an API group.
func (o *Order) Aggregates(group string) bool { return slices.Contains(o.aggregated, group) }

func (o *Order) addSpan(g *gate, gr schema.GroupResource) {
	begin, end := o.Span(gr)
	for i := begin; i < end; i++ {
		g.waiting = append(g.waiting, int32(i)) //nolint:gosec // order.MaxItems
	}
}

// anyVersion makes the rules of a webhook match objects in all versions if it is called for equivalent ones.
func anyVersion(hook *webhook.Webhook) {
	if hook.MatchPolicy != nil && *hook.MatchPolicy != admissionv1.Equivalent {
		return
	}
	for i := range hook.Rules {
		hook.Rules[i].APIVersions = []string{"*"}
	}
}

// backendsOf returns the items of a service of the backup, and of the pods that serve it and of what makes such pods.
func (o *Order) backendsOf(called Service) ([]int32, error) {
	at, found := o.find(serviceRef(called))
	if !found {
		return nil, nil // it is of the cluster
	}
	raw, err := o.backup.Read(o.Item(at))
	if err != nil {
		return nil, err
	}
	var service struct{ Spec struct{ Selector labels.Set } }
	backends := []int32{int32(at)} //nolint:gosec // order.MaxItems
	if json.Unmarshal(raw, &service) != nil || len(service.Spec.Selector) == 0 {
		return backends, nil
	}
	serves := service.Spec.Selector.AsSelector()
	for _, gr := range servingResources {
		begin, end := o.within(gr, called.Namespace)
		for i := begin; i < end; i++ {
			raw, err := o.backup.Read(o.Item(i))
			if err != nil {
				return nil, err
			}
			var object struct {
				Metadata struct{ Labels labels.Set }
				Spec     struct {
					Template struct{ Metadata struct{ Labels labels.Set } }
				}
			}
			if json.Unmarshal(raw, &object) != nil {
				continue // its restore reports it
			}
			of := object.Spec.Template.Metadata.Labels
			if gr.Resource == "pods" {
				of = object.Metadata.Labels
			}
			if serves.Matches(of) {
				backends = append(backends, int32(i)) //nolint:gosec // order.MaxItems
			}
		}
	}
	return backends, nil
}

// within returns the first position of the items of a resource in a namespace, and the one after the last.
func (o *Order) within(gr schema.GroupResource, namespace string) (begin, end int) {
	first, last := o.Span(gr)
	from := func(order int) int { // of the first one whose namespace compares so, or higher
		return first + sort.Search(last-first, func(i int) bool {
			return cmp.Compare(o.Item(first+i).Namespace, namespace) >= order
		})
	}
	return from(0), from(1)
}

// intercept adds an item to the gates of the webhooks that can refuse it.
func (o *Order) intercept(i int, of *manifest.Item) {
	gr := o.Item(i).GroupResource
	if len(o.gates) == 0 || neverGated(gr) {
		return
	}
	called := webhook.Request{
		Operation: admissionv1.Create, Resource: gr.WithVersion(of.APIVersion), Namespace: of.Namespace,
		Labels: labels.Set{}, Around: func() labels.Set { return o.labelsOf(of.Namespace) },
	}
	if of.Labels != nil {
		called.Labels = of.Labels
	}
	if gr == namespacesResource {
		called.Labels = o.labelsOf(of.Name)
	}
	if _, known := o.callers[gr]; !known {
		if o.callers == nil {
			o.callers = map[schema.GroupResource][]int{}
		}
		o.callers[gr] = nil
		for g := range o.gates {
			if slices.ContainsFunc(o.gates[g].hooks, func(hook webhook.Webhook) bool { return hook.HasRule(called) }) {
				o.callers[gr] = append(o.callers[gr], g)
			}
		}
	}
	for _, g := range o.callers[gr] {
		if slices.ContainsFunc(o.gates[g].hooks, func(hook webhook.Webhook) bool { return hook.Matches(called) }) {
			o.gates[g].waiting = append(o.gates[g].waiting, int32(i)) //nolint:gosec // order.MaxItems
		}
	}
}

// labelsOf returns the labels of a namespace of the backup. Its name is the one in the backup, as in the selectors of the
// webhooks with which they are compared: both are mapped alike.
func (o *Order) labelsOf(namespace string) labels.Set {
	if known, ok := o.labels[namespace]; ok {
		return known
	}
	var object struct{ Metadata struct{ Labels labels.Set } }
	if entry, found := o.backup.Find(namespacesResource, "", namespace); found {
		if raw, err := o.backup.Read(entry); err == nil {
			_ = json.Unmarshal(raw, &object) // without labels, if it is no object
		}
	}
	set := object.Metadata.Labels
	if set == nil {
		set = labels.Set{}
	}
	set["kubernetes.io/metadata.name"] = namespace
	if o.labels == nil {
		o.labels = map[string]labels.Set{}
	}
	o.labels[namespace] = set
	return set
}
