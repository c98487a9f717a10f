package preparequeue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	loadsoothing "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/plugins/loadsoothing/preparequeue"
)

func TestLoadsInPreparationDoNotExceedLimit(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t, preparequeue.Register())
	five := []loadsoothing.Count{{Kind: "DataUpload", Node: "n1", Accepted: 1, Prepared: 2},
		{Kind: "PodVolumeBackup", Accepted: 2}}
	for name, test := range map[string]struct {
		config any
		limit  int
		counts []loadsoothing.Count
		want   loadsoothing.AdmitOutput
	}{
		"no limit":               {nil, 0, five, loadsoothing.AdmitOutput{Admitted: true}},
		"below the node agent's": {nil, 6, five, loadsoothing.AdmitOutput{Admitted: true}},
		"at the node agent's": {nil, 5, five,
			loadsoothing.AdmitOutput{Reason: "5 loads are in preparation, and no more than 5 may be at once"}},
		"above it": {map[string]int{}, 4, five,
			loadsoothing.AdmitOutput{Reason: "5 loads are in preparation, and no more than 4 may be at once"}},
		"a limit of its own": {map[string]int{"loads": 5}, 0, five,
			loadsoothing.AdmitOutput{Reason: "5 loads are in preparation, and no more than 5 may be at once"}},
		"its own before the other":  {map[string]int{"loads": 6}, 5, five, loadsoothing.AdmitOutput{Admitted: true}},
		"nothing is in preparation": {map[string]int{"loads": 1}, 0, nil, loadsoothing.AdmitOutput{Admitted: true}},
		"something of a newer server": {map[string]int{"loads": 1}, 0, []loadsoothing.Count{{Kind: "Unheard", Prepared: 1}},
			loadsoothing.AdmitOutput{Reason: "1 loads are in preparation, and no more than 1 may be at once"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision, err := plugin.LoadSoothingV1(preparequeue.Name, plugintest.WithConfig(test.config)).Admit(t.Context(),
				&loadsoothing.AdmitInput{Limit: test.limit, Counts: test.counts})
			require.NoError(t, err)
			require.Equal(t, &test.want, decision)
		})
	}
	_, err := plugin.LoadSoothingV1(preparequeue.Name, plugintest.WithConfig(map[string]int{"load": 1})).Admit(t.Context(),
		&loadsoothing.AdmitInput{})
	require.ErrorContains(t, err, `unknown key "load", want one of loads`)
	require.ErrorContains(t, plugin.ValidateConfig("LoadSoothing", preparequeue.Name, map[string]int{"loads": 0}),
		"minimum")
}
