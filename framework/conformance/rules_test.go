package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
)

var update = flag.Bool("update", false, "update the table of rules in doc.go")

// The table in doc.go is between these lines.
const (
	tableBegin = "// # Rules\n//\n"
	tableEnd   = "//\n// # Reading on\n"
)

func TestDocHasTheTableOfRules(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	for _, rule := range conformance.Rules() {
		fmt.Fprintf(&table, "//\t%-27s %-7s %s\n", rule.ID, rule.Severity, kindsOf(rule))
	}
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(doc), tableBegin)
	require.True(t, found)
	is, after, found := strings.Cut(rest, tableEnd)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile("doc.go", []byte(before+tableBegin+table.String()+tableEnd+after), 0o644)) //nolint:gosec // a source file
		return
	}
	require.Equal(t, table.String(), is, "update it with: go test ./framework/conformance -run TableOfRules -update")
}

// kindsOf returns the kinds of a rule in a few words.
func kindsOf(rule conformance.Rule) string {
	actions := []string{
		"BackupItemAction", "BackupItemActionV2", "AsyncBackupItemAction", "RestoreItemAction", "RestoreItemActionV2",
		"AsyncRestoreItemAction", "DeleteItemAction", "ItemBlockAction",
	}
	switch {
	case slices.Equal(rule.Kinds, actions):
		return "all actions"
	case slices.Equal(rule.Kinds, actions[:6]):
		return "all actions that answer with an item"
	case slices.Equal(rule.Kinds, []string{actions[1], actions[2], actions[4], actions[5]}):
		return "all actions that start operations"
	}
	return strings.Join(rule.Kinds, ", ")
}

func TestRulesAreUniqueAndHaveTexts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, rule := range conformance.Rules() {
		require.Regexp(t, regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`), rule.ID)
		require.False(t, seen[rule.ID], rule.ID)
		seen[rule.ID] = true
		require.NotEmpty(t, rule.Kinds, rule.ID)
		require.Contains(t, []conformance.Severity{conformance.Must, conformance.Should}, rule.Severity, rule.ID)
		require.True(t, strings.HasSuffix(strings.TrimSuffix(rule.Text, ")"), "."), "%s: %s", rule.ID, rule.Text)
	}
}
