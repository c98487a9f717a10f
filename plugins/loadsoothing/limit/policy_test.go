package limit

import (
	"testing"

	"github.com/stretchr/testify/require"

	loadsoothing "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
)

func TestNoMoreThanTheLimitIsInPreparation(t *testing.T) {
	t.Parallel()
	five := []loadsoothing.Count{{Kind: "DataUpload", Node: "n1", Accepted: 1, Prepared: 2}, {Kind: "PodVolumeBackup", Accepted: 2}}
	for name, test := range map[string]struct {
		config string
		limit  int
		counts []loadsoothing.Count
		want   loadsoothing.Decision
	}{
		"no limit":                    {"", 0, five, loadsoothing.Decision{Admitted: true}},
		"below the node agent's":      {"", 6, five, loadsoothing.Decision{Admitted: true}},
		"at the node agent's":         {"", 5, five, loadsoothing.Decision{Reason: "5 loads are in preparation, and no more than 5 may be at once"}},
		"above it":                    {"{}", 4, five, loadsoothing.Decision{Reason: "5 loads are in preparation, and no more than 4 may be at once"}},
		"a limit of its own":          {`{"loads":5}`, 0, five, loadsoothing.Decision{Reason: "5 loads are in preparation, and no more than 5 may be at once"}},
		"its own before the other":    {`{"loads":6}`, 5, five, loadsoothing.Decision{Admitted: true}},
		"nothing is in preparation":   {`{"loads":1}`, 0, nil, loadsoothing.Decision{Admitted: true}},
		"something of a newer server": {`{"loads":1}`, 0, []loadsoothing.Count{{Kind: "Unheard", Prepared: 1}}, loadsoothing.Decision{Reason: "1 loads are in preparation, and no more than 1 may be at once"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision, err := policy{}.Admit(t.Context(), &loadsoothing.Request{Config: []byte(test.config), Limit: test.limit, Counts: test.counts})
			require.NoError(t, err)
			require.Equal(t, &test.want, decision)
		})
	}
	_, err := policy{}.Admit(t.Context(), &loadsoothing.Request{Config: []byte(`{"load":1}`)})
	require.ErrorContains(t, err, "load")
}
