package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

func TestVersionIsChosenInVelerosOrder(t *testing.T) {
	t.Parallel()
	served := func(preferred string, others ...string) discovery.Resource {
		return discovery.Resource{GroupVersion: schema.GroupVersion{Version: preferred}, Others: others}
	}
	for name, tt := range map[string]struct {
		wanted  []string
		source  string
		others  []string
		cluster discovery.Resource
		version string
		why     string
	}{
		"the user's": {[]string{"v9", "v1beta1"}, "v1", []string{"v1beta1", "v2"},
			served("v2", "v1", "v1beta1"), "v1beta1", "the user prefers it"},
		"the user's is not in the backup": {[]string{"v3"}, "v1", []string{"v2"}, served("v2", "v3", "v1"), "v2",
			"the cluster prefers it"},
		"the user's is not served": {[]string{"v2"}, "v1", []string{"v2"}, served("v1"), "v1", "the cluster prefers it"},
		"the cluster's":            {nil, "v1", []string{"v2"}, served("v2", "v1"), "v2", "the cluster prefers it"},
		"the source's": {nil, "v1", []string{"v1beta1"}, served("v2", "v1", "v1beta1"), "v1",
			"the cluster of the backup preferred it"},
		"the highest that both have": {nil, "v1", []string{"v1alpha1", "v1beta1"},
			served("v3", "v2", "v1beta1", "v1alpha1"), "v1beta1", "the cluster and the backup both have it"},
		"none": {nil, "v1", []string{"v1beta1"}, served("v3", "v2"), "v1",
			"the cluster serves no version that the backup has"},
	} {
		version, why := ChooseVersion(tt.wanted, tt.source, tt.others, tt.cluster)
		require.Equal(t, tt.version, version, name)
		require.Equal(t, tt.why, why, name)
	}
}

func TestVersionPrioritiesAreParsed(t *testing.T) {
	t.Parallel()
	priorities, problems := ParseVersionPriorities(
		"rockbands.music.example.io=v2beta1, v2beta2\n\n orchestras.music.example.io = v2\nnone\na=\n=v1\na=b=c\na=v1,,v2",
	)
	require.Equal(t, VersionPriorities{"rockbands.music.example.io": {"v2beta1", "v2beta2"},
		"orchestras.music.example.io": {"v2"}}, priorities)
	require.Equal(t, []string{
		`line 4: "none", want RESOURCE.GROUP=VERSION,VERSION`, `line 5: "a=", want RESOURCE.GROUP=VERSION,VERSION`,
		`line 6: "=v1", want RESOURCE.GROUP=VERSION,VERSION`, `line 7: "a=b=c", want RESOURCE.GROUP=VERSION,VERSION`,
		`line 8: "a=v1,,v2", want RESOURCE.GROUP=VERSION,VERSION`,
	}, problems)
}
