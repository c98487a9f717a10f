package reference

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestCheckSaysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	const good = "resources: [a.example.io], paths: [spec.name], to: {resource: services, kind: Service}"
	for row, want := range map[string]string{
		good: "",
		"resources: [a.example.io], paths: [spec.name]":                      "references[0].to is missing",
		"paths: [spec.name], to: {resource: services, kind: Service}":        "references[0].resources is empty",
		"resources: [a.example.io], to: {resource: services, kind: Service}": "references[0].paths is empty",
		strings.Replace(good, "a.example.io", "A",
			1): `references[0].resources[0] is "A", want a plural and a group`,
		strings.Replace(good, "a.example.io", `"*"`, 1):        `references[0].resources[0] is "*"`,
		strings.Replace(good, "spec.name", "a, spec..name", 1): `references[0].paths[1] is not a path: "" is not a key`,
		strings.Replace(good, "spec.name", `""`, 1): "references[0].paths[0] is not a path: it " +
			"is empty",
		strings.Replace(good, "spec.name", `"a[0]"`,
			1): `references[0].paths[0] is not a path: want [*] or ["key"] at "[0]"`,
		strings.Replace(good, "spec.name", `'a["b"'`, 1):  `want [*] or ["key"]`,
		strings.Replace(good, "spec.name", `'a["*"]'`, 1): `want [*] or ["key"]`,
		strings.Replace(good, "spec.name", `"a[*]b"`, 1):  `want "." or "[" at "b"`,
		strings.Replace(good, "spec.name", `"a.b/c"`,
			1): `"b/c" is not a key; write other keys than words as ["key"]`,
		strings.Replace(good, "spec.name", `"a[*]"`, 1) +
			", softIf: optional": "references[0].paths[0] ends in *, so that there are no fields beside the name",
		strings.Replace(good, ", kind: Service", "", 1):      "references[0].to.kind is missing",
		strings.Replace(good, "resource: services, ", "", 1): "references[0].to.resource is missing",
		strings.Replace(good, "services", `"*.apps"`, 1):     `references[0].to.resource is "*.apps"`,
		strings.Replace(good, "Service}", "Service, namespace: default}",
			1): `references[0].to.namespace is "default", want Same or Cluster`,
		good + ", as: {resource: pods, path: spec}":                          "references[0].as is set, and so is to",
		"resources: [a], paths: [b], as: {resource: pods, path: spec}":       "",
		"resources: [a], paths: [b], as: {resource: \"*.apps\", path: spec}": "references[0].as.resource is",
		"resources: [a], paths: [b], as: {resource: pods}": "references[0].as.path is not a path: it " +
			"is empty",
		"resources: [a], paths: [b], strict: true, as: {resource: p, path: s}": "references[0].as is set, so when, strict " +
			"and softIf have no effect",
		"resources: [a], paths: [b], to: {fields: {kind: kind}}, strict: false": "",
	} {
		var added Row
		require.NoError(t, yaml.Unmarshal([]byte("{"+row+"}"), &added), row)
		found := Check([]Row{added})
		if want == "" {
			require.Empty(t, found, row)
			continue
		}
		require.Len(t, found, 1, row)
		require.ErrorContains(t, found[0], want, row)
	}
}

func TestPartsOfEachOtherAreAProblem(t *testing.T) {
	t.Parallel()
	rows := []Row{
		{Resources: []string{"a.example.io"}, Paths: []string{"spec.a"}, As: Part{"b.example.io", "spec"}},
		{Resources: []string{"b.example.io"}, Paths: []string{"spec.b"}, As: Part{"a.example.io", "spec"}},
	}
	require.Empty(t, Check(rows[:1]))
	require.Equal(t, []Problem{{1, "as", "leads in a circle: a.example.io, b.example.io, a.example.io"}}, Check(rows))
}

func TestEmbeddedTableIsReadStrictly(t *testing.T) {
	t.Parallel()
	_, err := parse([]byte("references:\n- resources: [a]\n  path: b\n"))
	require.ErrorContains(t, err, "field path not found")
	_, err = parse([]byte("references:\n- resources: [a]\n"))
	require.ErrorContains(t, err, "references[0].paths is empty")
}
