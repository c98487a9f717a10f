package serverreport

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOperationsFitIntoAnnotation(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		owners, operations int
		text               string
		shown              int // of all operations
		each               int // of one owner
		omitted            int // owners
	}{
		"all":              {owners: 20, operations: 25, shown: 500, each: 25},
		"many operations":  {owners: 20, operations: 500, shown: 500, each: 25},
		"many owners":      {owners: 1000, operations: 10, shown: 500, each: 2, omitted: 800},
		"a single owner":   {owners: 1, operations: 10_000, shown: 500, each: 500},
		"long texts":       {owners: 2, operations: 500, text: strings.Repeat("é\x1b\"", 2000), each: 10},
		"nothing to shown": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var owners []OperationsOf
			for i := range tt.owners {
				owner := OperationsOf{Kind: "Backup", Name: fmt.Sprint(i), Problem: tt.text}
				for j := range tt.operations {
					o := Operation{
						Plugin: "a.b/c", ID: fmt.Sprint(j) + tt.text, Resource: "persistentvolumeclaims", Namespace: "n",
						Name: fmt.Sprint(j), Phase: "Completed",
						Done: 1, Total: 2, Units: "bytes", Description: tt.text, Error: tt.text, Trouble: tt.text, Created: time.Unix(1,
							0),
					}
					if j%2 == 1 {
						o.Phase = "New"
					}
					owner.Operations = append(owner.Operations, o)
				}
				owners = append(owners, owner)
			}
			report := NewOperations(time.Unix(2, 0).UTC(), owners)
			text, err := report.Encode()
			require.NoError(t, err)
			require.Less(t, len(text), maxAnnotation)
			read, err := DecodeOperations(text)
			require.NoError(t, err)
			require.Equal(t, tt.omitted, read.Omitted)
			require.Equal(t, tt.owners*tt.operations, read.Attempted(), "all are counted")
			require.Equal(t, int64(tt.owners*tt.operations), sumOf(read.Amounts).Done)
			shown := 0
			for i, owner := range read.Owners {
				require.Equal(t, tt.operations, len(owner.Operations)+owner.Omitted)
				require.Equal(t, tt.operations, owner.Attempted())
				require.GreaterOrEqual(t, len(owner.Operations), tt.each)
				require.Equal(t, "1", strings.Trim(owner.Operations[0].ID[:1], "\n"), "open ones are first")
				require.Len(t, report.Owners[i].Operations, tt.operations, "the report itself is not changed")
				shown += len(owner.Operations)
			}
			if tt.text == "" {
				require.Equal(t, tt.shown, shown)
			}
		})
	}
}

func sumOf(amounts []Amount) Amount {
	if len(amounts) == 0 {
		return Amount{}
	}
	return amounts[0]
}

func TestSummary(t *testing.T) {
	t.Parallel()
	op := func(phase string, done, total int64, units string) Operation {
		return Operation{Phase: phase, Done: done, Total: total, Units: units}
	}
	for name, tt := range map[string]struct {
		operations []Operation
		want       Summary
	}{
		"none": {},
		"adds up": {
			[]Operation{op("New", 0, 0, ""), op("InProgress", 1, 10, "bytes"), op("Completed", 10, 10, "bytes"),
				op("Failed", 0, 0, "")},
			Summary{Open: 2, Completed: 1, Failed: 1, Silent: 1, Amounts: []Amount{{"bytes", 11, 20}}},
		},
		"other units": {
			[]Operation{op("InProgress", 1, 10, "bytes"), op("InProgress", 2, 3, "files")},
			Summary{Open: 2, Amounts: []Amount{{"bytes", 1, 10}, {"files", 2, 3}}},
		},
		"a total is not known": {
			[]Operation{op("InProgress", 1, 10, "b"), op("InProgress", 2, 0, "b"), op("InProgress", 2, 9, "b")},
			Summary{Open: 3, Amounts: []Amount{{"b", 5, 0}}},
		},
		"lies": {
			[]Operation{op("InProgress", math.MaxInt64, math.MaxInt64, "b"), op("InProgress", math.MaxInt64, 1, "b"),
				op("InProgress", math.MinInt64, math.MinInt64, "c"), op("New", math.MinInt64, 5, "c")},
			Summary{Open: 4, Amounts: []Amount{{"b", math.MaxInt64, math.MaxInt64}, {"c", math.MinInt64, 0}}},
		},
		"a phase of the future": {[]Operation{op("Paused", 0, 0, "")}, Summary{Open: 1, Silent: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := NewOperations(time.Time{}, []OperationsOf{{Kind: "Backup", Name: "b", Operations: tt.operations}})
			require.Equal(t, tt.want, report.Summary)
			require.Equal(t, tt.want, report.Owners[0].Summary)
		})
	}
}

func TestDecodeOperations(t *testing.T) {
	t.Parallel()
	read, err := DecodeOperations(
		`{"open":1,"owners":[{"kind":"Backup","name":"b","color":"red","operations":[{"phase":"Paused"}]}],"more":1}`,
	)
	require.NoError(t, err)
	require.Equal(t, "Paused", read.Owners[0].Operations[0].Phase)
	for text, want := range map[string]string{
		"{": "annotation cleat.dev/operations of the server's answer is not a report of " +
			"operations: ",
		`{"owners":[{"kind":"Backup"}]}`: "annotation cleat.dev/operations of the server's answer: owners[0] has no " +
			"kind or no name",
		`{"owners":[{"name":"b"}]}`:         "owners[0] has no kind or no name",
		`{"open":"many"}`:                   "is not a report of operations: ",
		`{"owners":[{"operations":["o"]}]}`: "is not a report of operations: ",
	} {
		_, err := DecodeOperations(text)
		require.ErrorContains(t, err, want)
	}
}
