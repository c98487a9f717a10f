package services_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/services"
)

// service returns a Service. metadata, which follows the name, and spec are JSON members without braces.
func service(metadata, spec string) string {
	if metadata != "" {
		metadata = "," + metadata
	}
	return `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"web"` + metadata + `},"spec":{` +
		spec + `}}`
}

// applied returns the annotation of kubectl apply for a spec.
func applied(spec string) string {
	text, _ := json.Marshal(`{"apiVersion":"v1","kind":"Service","spec":{` + spec + `}}`)
	return fmt.Sprintf(`"annotations":{"kubectl.kubernetes.io/last-applied-configuration":%s}`, text)
}

// owned returns the managed fields that own the given fields of a spec.
func owned(fields string) string {
	return `"managedFields":[{"manager":"ctl","operation":"Update","subresource":"status"},
		{"manager":"kubectl","operation":"Apply","fieldsV1":{"f:metadata":{},"f:spec":{` + fields + `}}}]`
}

func newAction(t *testing.T) riav1.RestoreItemAction {
	t.Helper()
	action, err := services.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	return action
}

func TestActionAppliesToServices(t *testing.T) {
	t.Parallel()
	selector, err := newAction(t).AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"services"}}, selector)
}

func TestAddressesAreRemovedUnlessHeadless(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]actiontest.Restore{
		"assigned": {
			Item: service("", `"clusterIP":"10.0.0.9","clusterIPs":["10.0.0.9","fd00::9"],"ipFamilies":["IPv4","IPv6"]`),
			Want: service("", `"ipFamilies":["IPv4","IPv6"]`),
		},
		"headless": {Item: service("", `"clusterIP":"None","clusterIPs":["None"]`)},
		"none":     {Item: service("", `"type":"ExternalName","externalName":"example.org"`)},
		"assigned, with node ports kept": {
			Item: service("", `"clusterIP":"10.0.0.9","ports":[{"port":80,"nodePort":30080}]`),
			Want: service("", `"ports":[{"port":80,"nodePort":30080}]`),
			Spec: keepPorts(true),
		},
		"foreign": {Item: service("", `"clusterIP":["None"]`), Err: "spec.clusterIP is a list, want a string"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, newAction(t)) })
	}
}

func keepPorts(keep bool) velerov1.RestoreSpec {
	return velerov1.RestoreSpec{PreserveNodePorts: &keep}
}

func TestOnlyChosenNodePortsAreKept(t *testing.T) {
	t.Parallel()
	const (
		named        = `"type":"NodePort","ports":[{"name":"http","port":80,"protocol":"TCP","nodePort":30080},{"name":"admin","port":81,"protocol":"TCP","nodePort":30081}]`
		namedNone    = `"type":"NodePort","ports":[{"name":"http","port":80,"protocol":"TCP"},{"name":"admin","port":81,"protocol":"TCP"}]`
		namedFirst   = `"type":"NodePort","ports":[{"name":"http","port":80,"protocol":"TCP","nodePort":30080},{"name":"admin","port":81,"protocol":"TCP"}]`
		unnamed      = `"type":"NodePort","ports":[{"port":80,"protocol":"TCP","nodePort":30080}]`
		unnamedNone  = `"type":"NodePort","ports":[{"port":80,"protocol":"TCP"}]`
		twice        = `"ports":[{"name":"t","port":53,"protocol":"TCP","nodePort":30053},{"name":"u","port":53,"protocol":"UDP","nodePort":30054}]`
		twiceUDPOnly = `"ports":[{"name":"t","port":53,"protocol":"TCP"},{"name":"u","port":53,"protocol":"UDP","nodePort":30054}]`
		ownHTTP      = `"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:nodePort":{},"f:port":{}},"k:{\"port\":81,\"protocol\":\"TCP\"}":{"f:port":{}}}`
	)
	both := owned(ownHTTP) + "," + applied(`"ports":[{"name":"admin","port":81,"nodePort":30081}]`)
	for name, row := range map[string]struct{ metadata, before, after string }{
		"nobody says anything": {"", named, namedNone},
		"without names":        {"", unnamed, unnamedNone},
		"applied by name": {applied(
			`"ports":[{"name":"http","port":80,"nodePort":30080},{"name":"admin","port":81}]`,
		), named, namedFirst},
		"applied with another number": {applied(`"ports":[{"name":"http","port":80,"nodePort":31000}]`), named,
			namedFirst},
		"applied in quotes": {applied(`"ports":[{"name":"http","port":80,"nodePort":"30080"}]`), named,
			namedFirst},
		"applied as null": {applied(`"ports":[{"name":"http","port":80,"nodePort":null}]`), named,
			namedNone},
		"applied as 0": {applied(`"ports":[{"name":"http","port":80,"nodePort":0}]`), named,
			namedNone},
		"applied without names": {applied(`"ports":[{"port":80,"nodePort":30080}]`), unnamed, unnamed},
		"applied with an empty name": {applied(`"ports":[{"name":"","port":80,"nodePort":30080}]`), unnamed,
			unnamed},
		"applied without names, another number": {applied(`"ports":[{"port":80,"nodePort":31000}]`), unnamed, unnamedNone},
		"applied for a named one only": {applied(`"ports":[{"name":"http","port":80,"nodePort":30080}]`), unnamed,
			unnamedNone},
		"applied without names, the port has one": {applied(`"ports":[{"port":80,"nodePort":30080}]`), named, namedNone},
		"applied without ports":                   {applied(`"selector":{"app":"web"}`), named, namedNone},
		"owned":                                   {owned(ownHTTP), named, namedFirst},
		"owned, without names":                    {owned(ownHTTP), unnamed, unnamed},
		"owned by protocol": {owned(
			`"f:ports":{"k:{\"port\":53,\"protocol\":\"UDP\"}":{"f:nodePort":{}}}`,
		), twice, twiceUDPOnly},
		"owned, and TCP is the default": {
			owned(ownHTTP), `"ports":[{"port":80,"nodePort":30080}]`, `"ports":[{"port":80,"nodePort":30080}]`,
		},
		"owned, but not the node port": {owned(`"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:port":{}}}`),
			named, namedNone},
		"owned, but not the ports": {owned(`"f:type":{}`), named, namedNone},
		"what was applied counts, not who owns": {both, named,
			`"type":"NodePort","ports":[{"name":"http","port":80,"protocol":"TCP"},{"name":"admin","port":81,"protocol":"TCP","nodePort":30081}]`},
		"an external name has none": {"", `"type":"ExternalName","ports":[{"port":80,"nodePort":30080}]`,
			`"type":"ExternalName","ports":[{"port":80,"nodePort":30080}]`},
		"no ports": {"", `"type":"ClusterIP","clusterIP":"None"`,
			`"type":"ClusterIP","clusterIP":"None"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actiontest.Restore{Item: service(row.metadata, row.before), Want: service(row.metadata, row.after)}.Run(t,
				newAction(t))
			actiontest.Restore{Item: service(row.metadata, row.before), Want: service(row.metadata, row.after),
				Spec: keepPorts(false)}.Run(t, newAction(t))
			actiontest.Restore{Item: service(row.metadata, row.before), Spec: keepPorts(true)}.Run(t, newAction(t))
		})
	}
}

func TestOnlyChosenHealthCheckNodePortIsKept(t *testing.T) {
	t.Parallel()
	const (
		local = `"type":"LoadBalancer","externalTrafficPolicy":"Local"`
		port  = `,"healthCheckNodePort":32000`
	)
	for name, row := range map[string]struct{ metadata, before, after string }{
		"assigned":           {"", local + port, local},
		"applied":            {applied(`"healthCheckNodePort":32000`), local + port, local + port},
		"applied as null":    {applied(`"healthCheckNodePort":null`), local + port, local},
		"applied as 0":       {applied(`"healthCheckNodePort":0`), local + port, local},
		"applied without it": {applied(`"type":"LoadBalancer"`), local + port, local},
		"owned":              {owned(`"f:healthCheckNodePort":{}`), local + port, local + port},
		"applied without it, but owned": {owned(`"f:healthCheckNodePort":{}`) + "," + applied(`"a":"b"`), local + port,
			local + port},
		"owned without it": {owned(`"f:type":{}`), local + port, local},
		"there is none":    {"", local, local},
		"another traffic policy": {"", `"type":"LoadBalancer","externalTrafficPolicy":"Cluster"` + port,
			`"type":"LoadBalancer","externalTrafficPolicy":"Cluster"` + port},
		"another type": {"", `"type":"NodePort","externalTrafficPolicy":"Local"` + port,
			`"type":"NodePort","externalTrafficPolicy":"Local"` + port},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actiontest.Restore{Item: service(row.metadata, row.before), Want: service(row.metadata, row.after)}.Run(t,
				newAction(t))
			actiontest.Restore{Item: service(row.metadata, row.before), Spec: keepPorts(true)}.Run(t, newAction(t))
		})
	}
}

func TestUnexpectedTypesAreErrors(t *testing.T) {
	t.Parallel()
	const ports = `"ports":[{"port":80,"nodePort":30080}]`
	for name, row := range map[string]struct{ metadata, spec, err string }{
		"ports":           {"", `"ports":{"port":80}`, "spec.ports is an object, want a list"},
		"a port":          {"", `"ports":[{"port":80},null]`, "spec.ports[1] is null, want an object"},
		"a port's number": {"", `"ports":[{"port":"http"}]`, "spec.ports[0].port is a string, want a whole number"},
		"a node port": {"", `"ports":[{"port":80,"nodePort":1.5}]`,
			"spec.ports[0].nodePort is the number 1.5, want a whole number"},
		"annotations":    {`"annotations":"x"`, ports, "metadata.annotations is a string, want an object"},
		"managed fields": {`"managedFields":{}`, ports, "metadata.managedFields is an object, want a list"},
		"owned ports": {`"managedFields":[{},{"fieldsV1":{"f:spec":{"f:ports":[]}}}]`, ports,
			"metadata.managedFields[1].fieldsV1.f:spec.f:ports is a list, want an object"},
		"applied": {
			`"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{"}`, ports,
			"metadata.annotations[kubectl.kubernetes.io/last-applied-configuration] is not a Service in JSON: unexpected end " +
				"of JSON input",
		},
		"an applied node port": {
			applied(`"ports":[{"nodePort":1.5}]`), ports,
			"metadata.annotations[kubectl.kubernetes.io/last-applied-configuration] has the node port 1.5, want a whole number",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actiontest.Restore{Item: service(row.metadata, row.spec), Err: row.err}.Run(t, newAction(t))
		})
	}
	actiontest.RestoreShapes(t, newAction(t), service(
		owned(`"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:nodePort":{}}}`)+","+applied(ports),
		`"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":32000,"clusterIP":"10.0.0.1",`+
			ports), velerov1.RestoreSpec{})
}

func FuzzTheLastAppliedConfigurationMayHoldAnything(f *testing.F) {
	f.Add(`{"spec":{"ports":[{"name":"http","nodePort":30080}],"healthCheckNodePort":1}}`)
	f.Add(`{"spec":{"ports":[{"nodePort":"30080"}]}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, configuration string) {
		item := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": configuration},
			},
			"spec": map[string]any{
				"ports": []any{map[string]any{"name": "http", "port": int64(80), "nodePort": int64(30080)}},
			},
		}}
		output, err := newAction(t).Execute(t.Context(), &riav1.ExecuteInput{Item: item, ItemFromBackup: item,
			Restore: &velerov1.Restore{}})
		if err != nil {
			require.ErrorContains(t, err, "last-applied-configuration")
			return
		}
		ports, found, err := unstructured.NestedSlice(output.UpdatedItem.Object, "spec", "ports")
		require.NoError(t, err)
		require.True(t, found)
		require.Len(t, ports, 1)
	})
}
