package config

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckActionsReportsMistakesWithFileLineAndKey(t *testing.T) {
	t.Parallel()
	const schema = `{"properties": {"zone": {"type": "string"}}}`
	for name, test := range map[string]struct {
		config   string // of a.io/b, in line 4
		found    []Implementation
		err      error
		warnings []string
		want     string // empty when nothing is wrong
	}{
		"accepted": {config: "{zone: UTC}", found: []Implementation{{Kind: "BackupItemAction", Schema: []byte(schema)}}},
		"of any action": {config: "{zone: UTC}", found: []Implementation{{Kind: "QueueAdmission"},
			{Kind: "AsyncRestoreItemAction", Schema: []byte(schema)}}},
		"unknown": {config: "{}", err: errors.New("no such plugin"),
			want: "cleat.yaml:4: plugins.config.a.io/b: no such plugin"},
		"without a schema": {
			config: "{}", found: []Implementation{{Kind: "DeleteItemAction"}},
			want: "cleat.yaml:4: plugins.config.a.io/b: no action of this name takes a configuration",
		},
		"of a policy": {
			config: "{}", found: []Implementation{{Kind: "QueueAdmission", Schema: []byte(schema)}},
			want: "cleat.yaml:4: plugins.config.a.io/b: is a plugin of the kind QueueAdmission, whose configuration belongs " +
				"in backups.admission.config",
		},
		"of a store": {
			config: "{}", found: []Implementation{{Kind: "ObjectStore", Schema: []byte(schema)}},
			want: "cleat.yaml:4: plugins.config.a.io/b: is a plugin of the kind ObjectStore, whose configuration belongs in " +
				"the BackupStorageLocation",
		},
		"refused by the schema": {
			config: "\n      zone: 5",
			found: []Implementation{
				{Kind: "BackupItemAction", Schema: []byte(schema), Faults: []Fault{{Message: "the same in other words"}}},
				{Kind: "ItemBlockAction", Schema: []byte(schema)},
			},
			want: "cleat.yaml:5: plugins.config.a.io/b.zone: is the number 5, want text; put it in quotes",
		},
		"refused by the plugin": {
			config: "\n      zone: Mars/Base",
			found: []Implementation{{Kind: "RestoreItemAction", Schema: []byte(schema),
				Faults: []Fault{{Key: "zone", Message: "is not on Earth"}}}},
			want: "cleat.yaml:5: plugins.config.a.io/b.zone: is not on Earth",
		},
		"a broken schema": {
			config: "{}", found: []Implementation{{Kind: "BackupItemAction", Schema: []byte(`{"type": 5}`)}},
			warnings: []string{"cleat.yaml:4: plugins.config.a.io/b: is not checked: the JSON Schema that the plugin " +
				"announces is broken"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nplugins:\n  config:\n    a.io/b: "+test.config+
				"\n"))
			require.NoError(t, err)
			warnings, err := file.CheckActions(func(name string) ([]Implementation, error) {
				require.Equal(t, "a.io/b", name)
				return test.found, test.err
			})
			require.Len(t, warnings, len(test.warnings))
			for i, want := range test.warnings {
				require.Contains(t, warnings[i], want)
			}
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.want)
			}
		})
	}
}
