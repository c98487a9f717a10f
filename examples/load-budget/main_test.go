package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
)

func TestEachClassHasBudgetOfItsOwn(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t, register())
	policy := plugin.LoadSoothingV1(name, plugintest.WithConfig(map[string]any{
		"classes": map[string]any{"fast": map[string]any{"loads": 2}, "big": map[string]any{"gigabytes": 10}},
		"default": map[string]any{"loads": 1},
	}))
	const gigabyte = 1 << 30
	count := func(class string, loads int, gigabytes int64) lsv1.Count {
		return lsv1.Count{Kind: "DataUpload", StorageClass: class, Accepted: loads - loads/2, Prepared: loads / 2,
			Bytes: gigabytes * gigabyte}
	}
	for why, test := range map[string]struct {
		class  string
		bytes  int64
		counts []lsv1.Count
		want   string // empty if it is admitted
	}{
		"room": {"fast", 0, []lsv1.Count{count("fast", 1, 0), count("big", 5, 3)}, ""},
		"no room": {"fast", 0, []lsv1.Count{count("fast", 2, 0)},
			"storage class fast has a budget of 2 loads, and as many are in preparation"},
		"room for its size": {"big", 4 * gigabyte, []lsv1.Count{count("big", 3, 6)}, ""},
		"no room for its size": {"big", 5 * gigabyte, []lsv1.Count{count("big", 3, 6)},
			"storage class big has a budget of 10 GiB, and too much of it is in preparation"},
		"larger than all, alone": {"big", 50 * gigabyte, []lsv1.Count{count("fast", 2, 99)}, ""},
		"others share the rest": {"slow", 0, []lsv1.Count{count("", 1, 0)},
			"the rest of the storage classes has a budget of 1 loads, and as many are in preparation"},
		"the rest has room again": {"", 0, []lsv1.Count{count("fast", 9, 0)}, ""},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			output, err := policy.Admit(t.Context(), &lsv1.AdmitInput{
				Load: lsv1.Load{Kind: "DataUpload", Name: "l", StorageClass: test.class, Bytes: test.bytes}, Counts: test.counts,
			})
			require.NoError(t, err)
			require.Equal(t, test.want == "", output.Admitted)
			require.Equal(t, test.want, output.Reason)
		})
	}
	require.ErrorContains(t,
		plugin.ValidateConfig("LoadSoothing", name,
			map[string]any{"classes": map[string]any{"fast": map[string]any{"load": 1}}}), "load")
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Test(t, conformance.Binary(plugintest.Build(t, ".")), conformance.WithConfig(name, map[string]string{
		"classes": "{fast: {loads: 4}}", "default": "{loads: 2}",
	}))
}
