package sample

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func TestSamplesFitTheSelectorOfAnAction(t *testing.T) {
	t.Parallel()
	all, err := All(nil)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		selector *shared.ResourceSelector
		want     []string // some of them
		not      []string
	}{
		"everything": {nil, []string{"Pod conformance/sample", "PersistentVolume sample"}, nil},
		"plural": {&shared.ResourceSelector{IncludedResources: []string{"pods"}},
			[]string{"Pod conformance/sample"}, []string{"Service conformance/sample"}},
		"with group": {&shared.ResourceSelector{IncludedResources: []string{"deployments.apps"}},
			[]string{"Deployment conformance/sample"}, []string{"Pod conformance/sample"}},
		"short": {&shared.ResourceSelector{IncludedResources: []string{"pvc"}},
			[]string{"PersistentVolumeClaim conformance/sample"}, []string{"Pod conformance/sample"}},
		"singular": {&shared.ResourceSelector{IncludedResources: []string{"pod"}}, []string{"Pod conformance/sample"}, nil},
		"glob": {&shared.ResourceSelector{IncludedResources: []string{"*.apps"}},
			[]string{"StatefulSet conformance/sample"}, []string{"Pod conformance/sample"}},
		"excluded": {&shared.ResourceSelector{ExcludedResources: []string{"pods"}},
			[]string{"Service conformance/sample"}, []string{"Pod conformance/sample"}},
		"a namespace": {&shared.ResourceSelector{IncludedNamespaces: []string{"in-*"}},
			[]string{"Pod in-conformance/sample"}, []string{"PersistentVolume sample"}},
		"not a namespace": {&shared.ResourceSelector{ExcludedNamespaces: []string{"kube-system"}},
			[]string{"Pod conformance/sample"}, []string{"PersistentVolume sample"}},
		"a label": {&shared.ResourceSelector{Selector: "app=db,tier in (a,b),owner,!gone,x!=y"},
			[]string{"Pod conformance/sample"}, nil},
		"unknown resource": {&shared.ResourceSelector{IncludedResources: []string{"widgets.example.io"}}, nil,
			[]string{"Pod conformance/sample"}},
		"an invalid selector": {&shared.ResourceSelector{Selector: "app=("}, nil, []string{"Pod conformance/sample"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, one := range all {
				if fitting, ok := one.Fit(test.selector); ok {
					got = append(got, fitting.String())
				}
			}
			require.Subset(t, got, test.want)
			for _, not := range test.not {
				require.NotContains(t, got, not)
			}
		})
	}
}

func TestSamplesAreMadeOfResourcesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	all, err := All(nil)
	require.NoError(t, err)
	for wanted, want := range map[string]string{
		"Pod": "", "cj": "", "CronJob.batch": "", "persistentvolumeclaim": "", "*": "", "*.example.io": "",
		"widgets.example.io": "example.io/v1 Widget", "Widget.example.io": "example.io/v1 Widget",
		"policies.example.io": "example.io/v1 Policy",
		"BackupPlan":          "conformance.invalid/v1 BackupPlan", "boxes.example.io": "example.io/v1 Box",
	} {
		selector := &shared.ResourceSelector{IncludedResources: []string{wanted}}
		made := Made(selector, all)
		if want == "" {
			require.Empty(t, made, wanted)
			continue
		}
		require.Len(t, made, 1, wanted)
		fitting, ok := made[0].Fit(selector)
		require.True(t, ok, wanted)
		identity, err := IdentityOf(fitting.Stored())
		require.NoError(t, err)
		require.Equal(t, want, identity.APIVersion+" "+identity.Kind, wanted)
	}
}

func TestItemOfTheCallerIsNotAdapted(t *testing.T) {
	t.Parallel()
	all, err := All([][]byte{[]byte("{apiVersion: example.io/v1, kind: Policy, metadata: {name: p, namespace: shop}}")})
	require.NoError(t, err)
	fitting, ok := all[0].Fit(&shared.ResourceSelector{IncludedResources: []string{"policies.example.io"}})
	require.True(t, ok)
	require.Equal(t, "Policy shop/p", fitting.String())
	_, ok = all[0].Fit(&shared.ResourceSelector{Selector: "app=db"})
	require.False(t, ok)
}
