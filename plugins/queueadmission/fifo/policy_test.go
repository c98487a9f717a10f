package fifo

import (
	"testing"

	"github.com/stretchr/testify/require"

	queueadmission "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

func backups(names ...string) []queueadmission.Backup {
	var all []queueadmission.Backup
	for _, name := range names {
		all = append(all, queueadmission.Backup{Name: name, Namespaces: []string{"shop"}})
	}
	return all
}

func TestBackupsAreAdmittedFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		snapshot queueadmission.DecideInput
		admit    []string
		waits    map[string]string
	}{
		"places for all": {queueadmission.DecideInput{Limit: 5, Queued: backups("a", "b")}, []string{"a", "b"}, nil},
		"places for some": {queueadmission.DecideInput{Limit: 2, Running: backups("r"), Queued: backups("a", "b", "c", "d")},
			[]string{"a"}, map[string]string{
				"b": "2 backups have been started, and no more than 2 may be at once; it is the next",
				"c": "2 backups have been started, and no more than 2 may be at once; 1 more is before it in the queue",
				"d": "2 backups have been started, and no more than 2 may be at once; 2 more are before it in the queue",
			}},
		"a ready one has its place": {queueadmission.DecideInput{Limit: 1, Ready: backups("r"), Queued: backups("a")}, nil,
			map[string]string{
				"a": "1 backup has been started, and no more than 1 may be at once; it is the next",
			}},
		"the limit was lowered": {queueadmission.DecideInput{Limit: 1, Running: backups("r", "s"), Queued: backups("a")}, nil,
			map[string]string{
				"a": "2 backups have been started, and no more than 1 may be at once; it is the next",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision, err := policy{}.Decide(t.Context(), &test.snapshot)
			require.NoError(t, err)
			require.Equal(t, test.admit, decision.Admit)
			require.Nil(t, decision.Order, "the order stays")
			require.Len(t, decision.Waits, len(test.waits))
			for _, wait := range decision.Waits {
				require.Equal(t, "Limit", wait.Reason)
				require.Equal(t, test.waits[wait.Name], wait.Message)
				require.Empty(t, wait.Blockers)
			}
		})
	}
}
