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
