package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/framework/plugintest"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// monday is a Monday, 12:00 in Berlin.
var monday = time.Date(2026, 3, 2, 11, 0, 0, 0, time.UTC)

func backup(name, team string, namespaces ...string) qav1.Backup {
	b := qav1.Backup{Name: name, Namespaces: namespaces, AllNamespaces: len(namespaces) == 0, Spec: []byte("{}"),
		Created: monday.Add(-time.Hour)}
	if team != "" {
		b.Labels = map[string]string{"example.cleat.dev/team": team}
	}
	return b
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config  string
		running []qav1.Backup
		queued  []qav1.Backup
		admit   []string
		waits   []string
		recheck time.Duration
	}{
		"nothing in the way": {
			queued: []qav1.Backup{backup("a", "", "n1"), backup("b", "", "n2")}, admit: []string{"a", "b"},
		},
		"the limit": {
			running: []qav1.Backup{backup("r1", "", "r1"), backup("r2", "", "r2"), backup("r3", "", "r3")},
			queued:  []qav1.Backup{backup("a", "", "n1"), backup("b", "", "n2")}, admit: []string{"a"},
			waits: []string{"b Limit: the server's limit of 4 is reached"},
		},
		"an overlap, also with one that waits": {
			running: []qav1.Backup{backup("r", "", "n1")},
			queued:  []qav1.Backup{backup("a", "", "n1", "n2"), backup("b", "", "n2", "n3"), backup("c", "", "n4")},
			admit:   []string{"c"},
			waits: []string{
				"a NamespaceOverlap: shares namespace n1 with r, which has started [r n1]",
				"b NamespaceOverlap: shares namespace n2 with a, which is ahead of it in the queue [a n2]",
			},
		},
		"all namespaces": {
			queued: []qav1.Backup{backup("a", "", "n1"), backup("all", ""), backup("b", "", "n2")}, admit: []string{"a"},
			waits: []string{
				"all NamespaceOverlap: may share namespaces with a, which has started [a]",
				"b NamespaceOverlap: may share namespaces with all, which is ahead of it in the queue [all]",
			},
		},
		"a quota": {
			config:  `{"quota": {"default": 1, "teams": {"gold": 2}}}`,
			running: []qav1.Backup{backup("r1", "gold", "r1")},
			queued: []qav1.Backup{
				backup("g1", "gold", "n1"), backup("g2", "gold", "n2"), backup("s1", "silver", "n3"), backup("s2", "silver", "n4"),
				backup("free", "", "n5"),
			},
			admit: []string{"g1", "s1", "free"},
			waits: []string{
				"g2 TeamQuota: team gold has a quota of 2, and 2 of its backups have started [r1 g1]",
				"s2 TeamQuota: team silver has a quota of 1, and 1 of its backups have started [s1]",
			},
		},
		"another label": {
			config: `{"quota": {"default": 1}, "teamLabel": "example.cleat.dev/none"}`,
			queued: []qav1.Backup{backup("a", "gold", "n1"), backup("b", "gold", "n2")}, admit: []string{"a", "b"},
		},
		"a window for a team": {
			config: `{"timeZone": "Europe/Berlin", "freeze": [{"days": ["Mon"], "from": "08:00", "to": "18:30", "teams": ["gold"]}]}`,
			queued: []qav1.Backup{backup("g", "gold", "n1"), backup("s", "silver", "n1")}, admit: []string{"s"},
			waits: []string{"g Freeze: in a freeze window until Mon 18:30 CET"}, recheck: 6*time.Hour + 30*time.Minute,
		},
		"a window for namespaces": {
			config: `{"freeze": [{"from": "08:00", "to": "24:00", "namespaces": ["shop-*"]}]}`,
			queued: []qav1.Backup{backup("s", "", "a", "shop-1"), backup("y", "", "yard"), backup("all", "")},
			admit:  []string{"y"},
			waits: []string{"s Freeze: in a freeze window until Tue 00:00 UTC",
				"all Freeze: in a freeze window until Tue 00:00 UTC"},
			recheck: 13 * time.Hour,
		},
		"a window that began yesterday, and one that follows it": {
			config: `{"freeze": [{"days": ["Sun"], "from": "20:00", "to": "11:30"}, {"from": "11:30", "to": "12:00"}]}`,
			queued: []qav1.Backup{backup("a", "", "n1")},
			waits:  []string{"a Freeze: in a freeze window until Mon 12:00 UTC"}, recheck: time.Hour,
		},
		"windows on other days and at other times": {
			config: `{"freeze": [{"days": ["Tue", "Sat"], "from": "00:00", "to": "24:00"}, {"from": "10:00", "to": "11:00"}, {"from": "11:01", "to": "10:00"}]}`,
			queued: []qav1.Backup{backup("a", "", "n1")}, admit: []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := plugintest.Run(t, register()).QueueAdmissionV1("example.cleat.dev/office-hours",
				plugintest.WithConfig(json.RawMessage(cmp.Or(test.config, "{}"))))
			decision, err := policy.Decide(t.Context(), &qav1.DecideInput{
				Now: monday, Limit: 4, Running: test.running, Queued: test.queued,
			})
			require.NoError(t, err)
			var waits []string
			for _, wait := range decision.Waits {
				text := wait.Name + " " + wait.Reason + ": " + wait.Message
				if named := slices.Concat(wait.Blockers, wait.Namespaces); len(named) > 0 {
					text += fmt.Sprint(" ", named)
				}
				waits = append(waits, text)
			}
			require.Equal(t, test.admit, decision.Admit)
			require.Equal(t, test.waits, waits)
			require.Equal(t, test.recheck, decision.RecheckAfter)
		})
	}
}

// On the day that clocks are put forward, at 01:00 UTC, a window ends at the local time of its end.
func TestAWindowEndsByTheClock(t *testing.T) {
	t.Parallel()
	var c config
	in := func(c config, at time.Time) time.Time {
		zone, err := c.zone()
		require.NoError(t, err)
		return at.In(zone)
	}
	require.NoError(t, json.Unmarshal(
		[]byte(`{"timeZone": "Europe/Berlin", "freeze": [{"from": "22:00", "to": "06:00"}]}`), &c,
	))
	a := backup("a", "", "n1")
	began := time.Date(2026, 3, 28, 21, 0, 0, 0, time.UTC)
	require.Zero(t, c.frozen(&a, in(c, began.Add(-time.Second))))
	require.Equal(t, began.Add(7*time.Hour), c.frozen(&a, in(c, began)).UTC())
	require.Zero(t, c.frozen(&a, in(c, began.Add(7*time.Hour))))
}

func TestWhatTheSchemaCannotSay(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t, register())
	for config, wants := range map[string]string{
		`{"timeZone": "Europe/Atlantis"}`:            `config: timeZone: time zone "Europe/Atlantis" is not known, want one as Europe/Berlin or UTC`,
		`{"freeze": [{"from": "8", "to": "24:00"}]}`: `"8" is not a time of day, want one as 08:00`,
		`{"freeze": [{"days": ["Someday"]}]}`:        `day "Someday" is not known`,
		`{"freeze": [{"namespaces": ["["]}]}`:        `namespace pattern "["`,
		`{"quota": {"teams": {"gold": "two"}}}`:      `want a whole number`,
		`{"quotas": {}}`:                             `unknown key "quotas"`,
	} {
		require.ErrorContains(t, plugin.ValidateConfig("QueueAdmission", name, json.RawMessage(config)), wants, config)
		policy := plugin.QueueAdmissionV1(name, plugintest.WithConfig(json.RawMessage(config)))
		_, err := policy.Decide(t.Context(),
			&qav1.DecideInput{Now: monday, Limit: 1, Queued: []qav1.Backup{backup("a", "", "n")}})
		require.ErrorContains(t, err, wants, config)
	}
}

// The built program follows all rules on which servers rely.
func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Test(t, conformance.Binary(plugintest.Build(t, ".")), conformance.WithConfig(name, map[string]string{
		"timeZone": "Europe/Berlin",
		"freeze":   `[{days: [Mon, Tue, Wed, Thu, Fri], from: "08:00", to: "18:00", teams: [gold]}]`,
		"quota":    `{default: 2}`,
	}))
}
