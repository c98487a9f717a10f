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
	require.ErrorContains(t, err, `unknown key "load", want one of loads, placesForRestores`)
	require.ErrorContains(t, plugin.ValidateConfig("LoadSoothing", preparequeue.Name, map[string]int{"loads": 0}),
		"minimum")
}

func TestLoadsOfRestoresGoFirst(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t, preparequeue.Register())
	for name, test := range map[string]struct {
		config                    any
		kind                      string
		waiting, backups, restore int
		want                      string
	}{
		"a backup leaves places for those that wait": {
			kind: "DataUpload", waiting: 2, backups: 2, want: "2 loads of restores go first, and 2 of 4 places are free"},
		"a place is left for a backup":   {kind: "PodVolumeBackup", waiting: 1, backups: 2},
		"a restore leaves no place":      {kind: "DataDownload", waiting: 9, backups: 3},
		"a restore keeps to the limit":   {kind: "PodVolumeRestore", backups: 4, want: "4 loads are in preparation, and no more than 4 may be at once"},
		"places are kept":                {config: map[string]int{"placesForRestores": 2}, kind: "DataUpload", backups: 2, want: "2 of 4 places are free, and 2 are kept for restores"},
		"a restore takes a kept one":     {config: map[string]int{"placesForRestores": 2}, kind: "DataDownload", backups: 2},
		"a used place is not kept twice": {config: map[string]int{"placesForRestores": 2}, kind: "DataUpload", backups: 1, restore: 1},
		"a place is left for backups":    {config: map[string]int{"placesForRestores": 9}, kind: "DataUpload"},
		"and only one":                   {config: map[string]int{"placesForRestores": 9}, kind: "DataUpload", backups: 1, want: "3 of 4 places are free, and 3 are kept for restores"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision, err := plugin.LoadSoothingV1(preparequeue.Name, plugintest.WithConfig(test.config)).Admit(t.Context(),
				&loadsoothing.AdmitInput{
					Limit: 4, Load: loadsoothing.Load{Kind: test.kind, RestoresWaiting: test.waiting},
					Counts: []loadsoothing.Count{
						{Kind: "DataUpload", Accepted: test.backups}, {Kind: "DataDownload", Prepared: test.restore},
					},
				})
			require.NoError(t, err)
			require.Equal(t, &loadsoothing.AdmitOutput{Admitted: test.want == "", Reason: test.want}, decision)
		})
	}
}
