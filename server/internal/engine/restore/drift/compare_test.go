package drift

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	require.NoError(t, utiljson.Unmarshal([]byte(text), &o))
	return o
}

// shown returns differences as text.
func shown(d *Drift) []string {
	var out []string
	for _, one := range d.Differences {
		text := []string{"missing ", "extra ", "changed "}[one.Kind] + one.Path
		if one.Obstacle != "" {
			text += ": " + one.Obstacle
		}
		if one.Foreign {
			text += " (foreign)"
		}
		out = append(out, text)
	}
	return out
}

// owned returns metadata with fields that a manager owns.
func owned(manager, subresource, fields string) string {
	return fmt.Sprintf(`"metadata":{"name":"x","managedFields":[{"manager":%q,"operation":"Update","subresource":%q,"fieldsV1":%s}]}`, manager, subresource, fields)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const user = "kubectl"
	services, jobs := schema.GroupResource{Resource: "services"}, schema.GroupResource{Group: "batch", Resource: "jobs"}
	volumes, pvcs := schema.GroupResource{Resource: "persistentvolumes"}, claims
	sized := func(size, annotation string) string {
		labels := `"mine":"1"`
		if annotation != "mine" {
			labels += `,"` + annotation + `":"s"`
		}
		return `{"metadata":{"annotations":{` + labels + `},"managedFields":[{"manager":"kubectl","operation":"Update","fieldsV1":{"f:metadata":{"f:annotations":{"f:mine":{}}},"f:spec":{"f:resources":{"f:requests":{"f:storage":{}}}}}}]},"spec":{"resources":{"requests":{"storage":"` + size + `"}}}}`
	}
	for name, tt := range map[string]struct {
		resource                      schema.GroupResource
		archived, reset, wanted, live string // reset and wanted are the preceding states if empty
		differences                   []string
		applied                       string // after all differences without an obstacle; live if empty
	}{
		"equal":                         {archived: `{"a":1}`, live: `{"a":1}`},
		"instance, status and restores": {archived: `{"metadata":{"uid":"1","labels":{"velero.io/restore-name":"a"}},"status":1}`, live: `{"metadata":{"uid":"2","ownerReferences":[1]},"status":2}`},
		"what servers act upon":         {archived: `{"metadata":{"labels":{"cleat.dev/load":"1","velero.io/backup-uid":"1"}}}`, wanted: `{"metadata":{"annotations":{"cleat.dev/any":"1"}}}`, live: `{"metadata":{"labels":{"cleat.dev/load":"2"}}}`},
		"every kind": {archived: `{"m":1,"c":1}`, live: `{"c":2,"e":{"f":3}}`,
			differences: []string{"changed c", "extra e.f", "missing m"}, applied: `{"m":1,"c":1}`},
		"null is absent": {archived: `{"a":null,"b":{"c":null}}`, live: `{"b":{}}`},
		"numbers are exact": {archived: `{"n":9007199254740993}`, live: `{"n":9007199254740992}`,
			differences: []string{"changed n"}, applied: `{"n":9007199254740993}`},
		"reset": {archived: `{"s":{"ip":1,"x":{"y":1}}}`, reset: `{"s":{}}`,
			live: `{"s":{"ip":2,"x":{"y":2}}}`},
		"reset, and more": {archived: `{"s":{"x":{"y":1}}}`, reset: `{}`, live: `{"s":{"x":{"y":2,"z":3}}}`,
			differences: []string{"extra s.x.z"}, applied: `{"s":{"x":{"y":2}}}`},
		"removed by a modifier": {archived: `{"a":1,"b":1}`, wanted: `{"b":1}`, live: `{"a":1,"b":1}`,
			differences: []string{"extra a"}, applied: `{"b":1}`},
		"changed by a restore": {archived: `{"a":1}`, reset: `{"a":2}`, live: `{"a":1}`,
			differences: []string{"changed a"}, applied: `{"a":2}`},
		"elements by name": {archived: `{"l":[{"name":"a","v":1},{"name":"b"}]}`,
			live: `{"l":[{"name":"c"},{"name":"a","v":2}]}`, differences: []string{"extra l[c].name", "changed l[a].v",
				"missing l[b]"}, applied: `{"l":[{"name":"a","v":1},{"name":"b"}]}`},
		"elements in another order": {archived: `{"l":[{"name":"a"},{"name":"b"}]}`,
			live: `{"l":[{"name":"b"},{"name":"a"}]}`, differences: []string{"changed l[0].name", "changed l[1].name"},
			applied: `{"l":[{"name":"a"},{"name":"b"}]}`},
		"elements by position": {resource: services, archived: `{"spec":{"ports":[{"port":80,"nodePort":1}]}}`,
			reset: `{"spec":{"ports":[{"port":80}]}}`, live: `{"spec":{"ports":[{"port":80,"nodePort":2}]}}`},
		"elements that were reset": {archived: `{"l":[1,2]}`, reset: `{"l":[1]}`, live: `{"l":[1,2]}`},
		"other lists": {archived: `{"l":[1,2]}`, live: `{"l":[1]}`, differences: []string{"changed l"},
			applied: `{"l":[1,2]}`},
		"finalizers stay": {archived: `{"metadata":{"finalizers":["a"]}}`,
			live: `{"metadata":{"finalizers":["b"]}}`, differences: []string{"changed metadata.finalizers"},
			applied: `{"metadata":{"finalizers":["b","a"]}}`},
		"odd keys": {archived: `{"data":{"a.b/c":"1"}}`, live: `{"data":{"a.b/c":"2"}}`,
			differences: []string{"changed data[a.b/c]"}, applied: `{"data":{"a.b/c":"1"}}`},
		"allotted": {
			archived: `{` + owned(user, "", `{"f:spec":{"f:a":{}}}`) + `,"spec":{"a":1,"ip":1}}`, live: `{` +
				owned(user, "", `{"f:spec":{"f:a":{}}}`) + `,"spec":{"a":1,"ip":2,"more":3}}`,
		},
		"of controllers": {
			archived: `{` + owned("kube-controller-manager", "", `{"f:spec":{"f:a":{}}}`) + `,"spec":{"a":1}}`, live: `{` +
				owned("deployments", "status", `{"f:spec":{}}`) + `,"spec":{"a":2}}`,
		},
		"chosen on one side": {
			archived: `{` + owned(user, "", `{"f:spec":{"f:a":{}}}`) + `,"spec":{"a":1}}`, live: `{` +
				owned("kubelet", "", `{"f:spec":{}}`) + `,"spec":{"a":2}}`, differences: []string{"changed spec.a"},
			applied: `{` + owned("kubelet", "", `{"f:spec":{}}`) + `,"spec":{"a":1}}`,
		},
		"chosen element": {
			archived: `{` + owned(user, "", `{"f:l":{"k:{\"name\":\"a\"}":{}}}`) + `,"l":[{"name":"a"}]}`, live: `{` +
				owned(user, "", `{"f:l":{"k:{\"name\":\"a\"}":{},"k:{\"name\":\"b\"}":{}}}`) +
				`,"l":[{"name":"a"},{"name":"b"},{"name":"c"}]}`,
			differences: []string{"extra l[b].name"}, applied: `{` +
				owned(user, "", `{"f:l":{"k:{\"name\":\"a\"}":{},"k:{\"name\":\"b\"}":{}}}`) + `,"l":[{"name":"a"},{"name":"c"}]}`,
		},
		"removed by an action of the backup": {
			archived: `{` + owned(user, "", `{"f:spec":{"f:source":{},"f:kept":{}}}`) + `,"spec":{"kept":1}}`, live: `{` +
				owned(user, "", `{"f:spec":{"f:source":{},"f:kept":{}}}`) + `,"spec":{"kept":1,"source":{"name":"x"}}}`,
		},
		"empty in the backup": {
			archived: `{` + owned(user, "", `{"f:spec":{"f:l":{".":{}}}}`) + `,"spec":{"kept":1}}`, live: `{` +
				owned(user, "", `{"f:spec":{"f:l":{".":{},"f:x":{}}}}`) + `,"spec":{"kept":1,"l":{"x":1}}}`,
			differences: []string{"extra spec.l.x"}, applied: `{` +
				owned(user, "", `{"f:spec":{"f:l":{".":{},"f:x":{}}}}`) + `,"spec":{"kept":1}}`,
		},
		"grown to its snapshot": {resource: pvcs, archived: sized("1Gi", "velero.io/volume-snapshot-name"),
			live: sized("16Mi", "mine")},
		"grown to its snapshot, and by a modifier": {resource: pvcs, archived: sized("1Gi", "velero.io/volume-snapshot-name"),
			wanted: sized("2Gi", "mine"), live: sized("16Mi", "mine"),
			differences: []string{"changed spec.resources.requests.storage"}, applied: sized("2Gi", "mine")},
		"of another size": {resource: pvcs, archived: sized("1Gi", "mine"), live: sized("16Mi", "mine"),
			differences: []string{"changed spec.resources.requests.storage"}, applied: sized("1Gi", "mine")},
		"of the same size": {resource: pvcs, archived: sized("1Gi", "mine"), live: sized("1024Mi", "mine")},
		"made larger since": {resource: pvcs, archived: sized("1Gi", "mine"), live: sized("2Gi", "mine"),
			differences: []string{"changed spec.resources.requests.storage: a claim cannot be made smaller"}},
		"immutable": {
			resource: jobs, archived: `{"spec":{"parallelism":1,"template":{"x":1}}}`,
			live: `{"spec":{"parallelism":2,"template":{"x":2}}}`,
			differences: []string{"changed spec.parallelism",
				"changed spec.template.x: it cannot be changed in an object that exists"},
			applied: `{"spec":{"parallelism":1,"template":{"x":2}}}`,
		},
		"held by another": {
			resource: volumes, archived: `{"spec":{"claimRef":{"namespace":"a","name":"x","uid":"1"}}}`,
			reset: `{"spec":{"claimRef":{"namespace":"a","name":"x"}}}`,
			live:  `{"spec":{"claimRef":{"namespace":"b","name":"y","uid":"2"}},"status":{"phase":"Bound"}}`,
			differences: []string{"changed spec.claimRef: the volume belongs to the claim that it is bound to, now b/y " +
				"(foreign)"},
		},
		"held by the same": {
			resource: volumes, archived: `{"spec":{"claimRef":{"namespace":"a","name":"x","uid":"1"}}}`,
			reset: `{"spec":{"claimRef":{"namespace":"a","name":"x"}}}`,
			live:  `{"spec":{"claimRef":{"namespace":"a","name":"x","uid":"2"}},"status":{"phase":"Bound"}}`,
		},
		"released": {
			resource: volumes, archived: `{"spec":{"claimRef":{"namespace":"a","name":"x","uid":"1"}}}`,
			reset:       `{"spec":{"claimRef":{"namespace":"a","name":"x"}}}`,
			live:        `{"spec":{"claimRef":{"namespace":"a","name":"x","uid":"2"}},"status":{"phase":"Released"}}`,
			differences: []string{"changed spec.claimRef"}, applied: `{"spec":{"claimRef":{"namespace":"a","name":"x"}}}`,
		},
		"address that the API server does not guard": {
			resource: services, archived: `{"spec":{"externalIPs":["192.0.2.1"],"clusterIP":"None"}}`, live: `{"spec":{}}`,
			differences: []string{"missing spec.clusterIP",
				"changed spec.externalIPs: addresses are not taken from one service for another, now none"},
			applied: `{"spec":{"clusterIP":"None"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.reset == "" {
				tt.reset = tt.archived
			}
			if tt.wanted == "" {
				tt.wanted = tt.reset
			}
			if tt.applied == "" {
				tt.applied = tt.live
			}
			d := Compare(States{
				Resource: tt.resource, Archived: parse(t, tt.archived), Reset: parse(t, tt.reset), Wanted: parse(t, tt.wanted),
				Live: parse(t, tt.live),
			})
			require.Equal(t, tt.differences, shown(d))
			applied := d.Apply(func(d Difference) bool { return d.Obstacle == "" })
			require.Equal(t, withoutInstance(parse(t, tt.applied)), applied)
		})
	}
}

// TestRulesNameFields checks that no row is shadowed by a mistake: a held or fixed field is a path below a top-level
// field.
func TestRulesNameFields(t *testing.T) {
	t.Parallel()
	for gr, f := range fixedFields {
		for _, except := range f.except {
			r := rules{fixed: fixed{fields: f.fields}}
			require.True(t, r.isImmutable(except), "%s: %s is an exception to nothing", gr, except)
		}
	}
	r := rules{fixed: fixed{fields: []string{"spec"}, except: []string{"spec.replicas"}}}
	require.True(t, r.isImmutable("spec.replicasOfOthers"))
	require.False(t, r.isImmutable("spec.replicas"))
	require.False(t, r.isImmutable("specification"))
}

// FuzzCompare compares any objects: an object does not differ from itself, and without differences there is no change.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"x","managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}]},"spec":{"l":[{"name":"a"}]}}`), []byte(`{"spec":{"l":[{"name":"b"},1]}}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var archived, live map[string]any
		if utiljson.Unmarshal(first, &archived) != nil || utiljson.Unmarshal(second, &live) != nil {
			return
		}
		require.Empty(t, Compare(States{Archived: archived, Reset: archived, Wanted: archived, Live: archived}).Differences)
		d := Compare(States{Archived: archived, Reset: archived, Wanted: archived, Live: live})
		if d.Live() != nil {
			require.Equal(t, d.Live(), d.Apply(func(Difference) bool { return false }))
		}
	})
}
