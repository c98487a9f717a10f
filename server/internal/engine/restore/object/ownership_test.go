package object

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestOwnershipPlan(t *testing.T) {
	t.Parallel()
	entry := func(manager, operation, subresource, fields string) string {
		return fmt.Sprintf(`{"manager":%q,"operation":%q,"subresource":%q,"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":%s}`, manager, operation, subresource, fields)
	}
	list := func(entries ...string) []byte { return []byte("[" + strings.Join(entries, ",") + "]") }
	tests := []struct {
		name   string
		fields []byte
		writer string
		sole   bool
		apply  bool
	}{
		{name: "nothing recorded", fields: nil, writer: "fallback"},
		{name: "empty list", fields: list(), writer: "fallback"},
		{name: "garbage", fields: []byte(`{"a":1}`), writer: "fallback"},
		{name: "one", fields: list(entry("a", "Update", "", `{"f:data":{}}`)), writer: "a", sole: true},
		{name: "one that applied", fields: list(entry("a", "Apply", "", `{"f:data":{}}`)), writer: "a", sole: true,
			apply: true},
		{name: "one and the status", fields: list(entry("a", "Update", "", `{"f:data":{}}`),
			entry("k", "Update", "status", `{"f:status":{"f:x":{}}}`)), writer: "a", sole: true},
		{name: "one and more than the status", fields: list(entry("a", "Update", "", `{"f:data":{}}`),
			entry("k", "Update", "status", `{"f:metadata":{"f:annotations":{"f:x":{}}},"f:status":{}}`)), writer: "a"},
		{name: "the larger of two", fields: list(entry("a", "Update", "", `{"f:a":{}}`),
			entry("b", "Update", "", `{"f:data":{"f:b":{},"f:c":{}}}`)), writer: "b"},
		{name: "one manager twice", fields: list(entry("a", "Update", "", `{"f:a":{}}`),
			entry("a", "Apply", "", `{"f:data":{"f:b":{}}}`)), writer: "a"},
		{name: "the status alone", fields: list(entry("k", "Update", "status", `{"f:status":{}}`)), writer: "fallback"},
		{name: "a name that no server accepts", fields: list(entry(strings.Repeat("x", 129), "Update", "", `{"f:a":{}}`)),
			writer: "fallback"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan := PlanOwnership(tt.fields, "fallback")
			require.Equal(t, tt.writer, plan.Writer)
			require.Equal(t, tt.sole, plan.sole != nil)
			require.Equal(t, tt.apply, plan.Apply)
		})
	}
}

func TestOwnershipMatchesUnlessTheServerRecordedMore(t *testing.T) {
	t.Parallel()
	of := func(manager, fields string) []byte {
		return fmt.Appendf(nil, `[{"manager":%q,"operation":"Update","apiVersion":"v1","fieldsV1":%s}]`, manager, fields)
	}
	plan := PlanOwnership(of("a", `{"f:data":{".":{},"f:x":{},"f:y":{}}}`), "")
	labels := fmt.Sprintf(`"f:metadata":{"f:labels":{".":{},"f:%s":{},"f:%s":{}}}`, velerov1.BackupNameLabel,
		velerov1.RestoreNameLabel)
	require.True(t, plan.Matches(of("a", `{"f:data":{".":{},"f:x":{},"f:y":{}}}`)))
	require.True(t, plan.Matches(of("a", `{"f:data":{".":{},"f:x":{}},`+labels+`}`)),
		"labels of the restore, and a field that an action removed")
	require.False(t, plan.Matches(of("a", `{"f:data":{".":{},"f:x":{},"f:z":{}}}`)))
	require.False(t, plan.Matches(of("b", `{"f:data":{".":{}}}`)))
	require.True(t, plan.Matches([]byte("[]")), "a type that the server does not track")
	require.False(t, plan.Matches([]byte("garbage")))
	require.True(t, PlanOwnership(nil, "x").Matches(of("x", `{"f:data":{}}`)), "nothing to restore")
}
