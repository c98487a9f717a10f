package command

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOptionalBoolIsNilUnlessGiven(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*bool{"": nil, "--s": new(true), "--s=true": new(true), "--s=false": new(false)} {
		var got *bool
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		AddOptionalBool(flags, &got, "s", "")
		require.NoError(t, flags.Parse(strings.Fields(text)))
		require.Equal(t, want, got, text)
	}
}

func TestLabelSelectorsParse(t *testing.T) {
	t.Parallel()
	one, _, err := (&LabelSelectors{one: "a=b,c notin (d)"}).Parse()
	require.NoError(t, err)
	require.Equal(t, "a=b,c notin (d)", metav1.FormatLabelSelector(one))
	_, alternatives, err := (&LabelSelectors{alternatives: "x=y or z"}).Parse()
	require.NoError(t, err)
	require.Len(t, alternatives, 2)
	_, _, err = (&LabelSelectors{one: "a=b", alternatives: "x=y"}).Parse()
	require.ErrorContains(t, err, "cannot be used together")
	_, _, err = (&LabelSelectors{one: "a=("}).Parse()
	require.ErrorContains(t, err, "--selector")
	_, _, err = (&LabelSelectors{alternatives: "a=b or ("}).Parse()
	require.ErrorContains(t, err, "--or-selector")
}

// TestNothingOfSelectorsIsDropped has selectors of which a spec could hold a part only.
func TestNothingOfSelectorsIsDropped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		says []string // none if it is right
	}{
		"two values of a label": {[]string{"--selector", "app=web,app=nginx"},
			[]string{`"app in (web,nginx)"`, "--or-selector", "app=web,app=nginx"}},
		"two values, as ==": {[]string{"-l", "app==web,tier=x,app=nginx"},
			[]string{`"app in (web,nginx)"`, "--or-selector"}},
		"given twice": {[]string{"--selector", "app=web", "--selector", "app=nginx"},
			[]string{`--or-selector "app=web or app=nginx"`, `"app in (web,nginx)"`}},
		"given twice for two": {[]string{"-l", "app=web", "--selector", "tier=x"},
			[]string{`--selector "app=web,tier=x"`, `--or-selector "app=web or tier=x"`}},
		"or given twice": {[]string{"--or-selector", "app=web", "--or-selector", "app=nginx"},
			[]string{`--or-selector "app=web or app=nginx"`, `"app in (web,nginx)"`}},
		"or with two values":   {[]string{"--or-selector", "tier=x or app=web,app=nginx"}, []string{`"app in (web,nginx)"`}},
		"the same twice":       {[]string{"-l", "app=web", "-l", "app=web"}, nil},
		"the same value twice": {[]string{"-l", "app=web,app=web"}, nil},
		"values of two labels": {[]string{"-l", "app=web,tier=web"}, nil},
		"and not":              {[]string{"-l", "app=web,app notin (nginx)"}, nil},
		"in":                   {[]string{"-l", "app in (web,nginx)"}, nil},
		"or":                   {[]string{"--or-selector", "app=web or app=nginx"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var selectors LabelSelectors
			flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
			selectors.Add(flags)
			err := flags.Parse(tt.args)
			if err == nil {
				_, _, err = selectors.Parse()
			}
			if tt.says == nil {
				require.NoError(t, err)
			}
			for _, text := range tt.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestNamespaceIsMappedOnce(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"a:b,c:d": "", "a:b,a:b": "", "a:b": "", "a:b,c:d,a:e": "a is mapped to b and to e, want one of them",
		"a": "want FROM:TO",
	} {
		var got map[string]string
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		flags.Var(NewMappings(&got), "m", "")
		err := flags.Parse([]string{"--m", "z:z", "--m", text})
		if says != "" {
			require.ErrorContains(t, err, says, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, "b", got["a"])
		require.Equal(t, "z", got["z"])
	}
}
