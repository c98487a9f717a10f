package queueadmission

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// fourQueued returns a snapshot with one free slot: a runs, and b to e are queued.
func fourQueued() *Input {
	return &Input{
		Limit:   2,
		Running: []Backup{{Name: "a", Namespaces: []string{"n1"}}},
		Queued: []Backup{
			{Name: "b", Namespaces: []string{"n1", "n2"}}, {Name: "c", Namespaces: []string{"n3"}},
			{Name: "d", AllNamespaces: true}, {Name: "e"},
		},
	}
}

// waits returns valid reasons for the named backups.
func waits(names ...string) []Waiting {
	var all []Waiting
	for _, name := range names {
		all = append(all, Waiting{Name: name, Reason: "Limit", Message: "no slot is free"})
	}
	return all
}

func TestDecisionMustMatchQueue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		output  qav1.DecideOutput
		want    []string // the waiting backups, in order; nil if the decision is rejected
		refused string
	}{
		"admit one":  {qav1.DecideOutput{Admit: []string{"c"}, Waits: waits("b", "d", "e")}, []string{"b", "d", "e"}, ""},
		"admit none": {qav1.DecideOutput{Waits: waits("e", "d", "c", "b")}, []string{"b", "c", "d", "e"}, ""},
		"a new order": {qav1.DecideOutput{Admit: []string{"e"}, Order: []string{"d", "b", "c"},
			Waits: waits("b", "c", "d")}, []string{"d", "b", "c"}, ""},
		"more than are free": {qav1.DecideOutput{Admit: []string{"b", "c"}, Waits: waits("d", "e")}, nil,
			"admits 2 backups, and 1 of 2 slots are free"},
		"a stranger": {qav1.DecideOutput{Admit: []string{"z"}, Waits: waits("b", "c", "d", "e")}, nil,
			`admits "z", which is not queued or was admitted already`},
		"one that runs": {qav1.DecideOutput{Admit: []string{"a"}, Waits: waits("b", "c", "d", "e")}, nil, `admits "a"`},
		"no name":       {qav1.DecideOutput{Admit: []string{""}, Waits: waits("b", "c", "d", "e")}, nil, `admits ""`},
		"an order with a hole": {qav1.DecideOutput{Admit: []string{"b"}, Order: []string{"c", "d"},
			Waits: waits("c", "d", "e")}, nil, `leaves 1 backups out of the order, "e" among them`},
		"an order with one twice": {qav1.DecideOutput{Admit: []string{"b"}, Order: []string{"c", "c", "d"},
			Waits: waits("c", "d", "e")}, nil, `orders "c", which does not wait in the queue or has its position already`},
		"an order with the admitted": {qav1.DecideOutput{Admit: []string{"b"}, Order: []string{"b", "c", "d", "e"},
			Waits: waits("c", "d", "e")}, nil, `orders "b"`},
		"an order with a stranger": {qav1.DecideOutput{Order: []string{"z", "b", "c", "d", "e"},
			Waits: waits("b", "c", "d", "e")},
			nil, `orders "z"`},
		"no reason": {qav1.DecideOutput{Admit: []string{"b"}, Waits: waits("c", "d")}, nil,
			`does not say why "e" waits`},
		"a reason for the admitted": {qav1.DecideOutput{Admit: []string{"b"}, Waits: waits("b", "c", "d", "e")}, nil,
			`gives a reason for "b", which does not wait`},
		"two reasons": {qav1.DecideOutput{Admit: []string{"b"}, Waits: waits("c", "c", "d", "e")}, nil,
			`says twice why "c" waits`},
		"nothing": {qav1.DecideOutput{}, nil, `does not say why "b" waits`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision, err := decided(fourQueued(), &test.output)
			if test.refused != "" {
				require.Nil(t, decision)
				require.ErrorContains(t, err, test.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.output.Admit, decision.Admit)
			var got []string
			for _, wait := range decision.Waiting {
				got = append(got, wait.Name)
				require.Equal(t, "no slot is free", wait.Message)
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestNoBackupIsAdmittedWithoutFreeSlot(t *testing.T) {
	t.Parallel()
	full := fourQueued()
	full.Ready = []Backup{{Name: "r1"}, {Name: "r2"}, {Name: "r3"}} // the limit was lowered
	require.Zero(t, full.Free())
	_, err := decided(full, &qav1.DecideOutput{Admit: []string{"b"}, Waits: waits("c", "d", "e")})
	require.ErrorContains(t, err, "admits 1 backups, and 0 of 2 slots are free")
	_, err = decided(full, &qav1.DecideOutput{Waits: waits("b", "c", "d", "e")})
	require.NoError(t, err)
}

func TestReasonMustBePrintable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wait Waiting
		want string
	}{
		"all of it": {Waiting{Name: "b", Reason: "NamespaceOverlap", Message: "waits for a",
			Blockers: []string{"a", "c"}, Namespaces: []string{"n1", "n2"}}, ""},
		"a namespace to come": {Waiting{Name: "d", Reason: "Overlap2", Message: "waits for a",
			Blockers: []string{"a"}, Namespaces: []string{"later"}}, ""},
		"no word":      {Waiting{Name: "b", Message: "m"}, `reason "" must be one word`},
		"two words":    {Waiting{Name: "b", Reason: "Name Space", Message: "m"}, "must be one word"},
		"a small word": {Waiting{Name: "b", Reason: "limit", Message: "m"}, "must be one word"},
		"a long word": {Waiting{Name: "b", Reason: "L" + strings.Repeat("i", 64), Message: "m"},
			"of at most 64 letters"},
		"no message":             {Waiting{Name: "b", Reason: "Limit"}, "message is empty"},
		"a message of two lines": {Waiting{Name: "b", Reason: "Limit", Message: "a\nb"}, "want one line"},
		"a stranger in its way": {Waiting{Name: "b", Reason: "Limit", Message: "m", Blockers: []string{"z"}},
			`blocker "z" is not another backup of the snapshot`},
		"itself in its way": {Waiting{Name: "b", Reason: "Limit", Message: "m", Blockers: []string{"b"}},
			`blocker "b" is not another`},
		"a namespace that it does not take": {Waiting{Name: "b", Reason: "Limit", Message: "m", Namespaces: []string{"n3"}},
			`namespace "n3" is none of the backup's`},
		"no namespace": {Waiting{Name: "d", Reason: "Limit", Message: "m", Namespaces: []string{""}},
			`namespace "" is none`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others := slices.DeleteFunc(waits("b", "c", "d", "e"), func(w Waiting) bool { return w.Name == test.wait.Name })
			decision, err := decided(fourQueued(), &qav1.DecideOutput{Waits: append(others, test.wait)})
			if test.want != "" {
				require.ErrorContains(t, err, `why "`+test.wait.Name+`" waits: `)
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.Contains(t, decision.Waiting, test.wait)
		})
	}
}

func TestRecheckMustNotBeTooSoon(t *testing.T) {
	t.Parallel()
	after := func(recheck time.Duration) error {
		return (&qav1.DecideOutput{RecheckAfter: recheck}).ValidateRecheck(nil)
	}
	require.NoError(t, after(0))
	require.NoError(t, after(time.Second))
	require.ErrorContains(t, after(time.Millisecond), "recheck_after is 1ms, want at least 1s")
}

// FuzzDecided proves that an accepted decision lists every queued backup once, as admitted or as waiting.
func FuzzDecided(f *testing.F) {
	f.Add("c", "b,d,e", "b,d,e")
	f.Add("", "", "b,c,d,e")
	f.Add("b,b", "c,c", "z")
	f.Fuzz(func(t *testing.T, admit, order, reasons string) {
		split := func(list string) []string {
			if list == "" {
				return nil
			}
			return strings.Split(list, ",")
		}
		input := fourQueued()
		decision, err := decided(input, &qav1.DecideOutput{Admit: split(admit), Order: split(order),
			Waits: waits(split(reasons)...)})
		if err != nil {
			require.Nil(t, decision)
			return
		}
		require.LessOrEqual(t, len(decision.Admit), input.Free())
		all := slices.Clone(decision.Admit)
		for _, wait := range decision.Waiting {
			require.NotEmpty(t, wait.Reason)
			all = append(all, wait.Name)
		}
		slices.Sort(all)
		require.Equal(t, []string{"b", "c", "d", "e"}, all)
	})
}
