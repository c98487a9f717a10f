package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/status/layout"
)

// print writes a value in the form that somebody asked for, which is text unless it is JSON or YAML. forms are the
// words for text, the first of which is the default.
func (a *App) Print(form string, forms []string, value any, text func() error) error {
	if err := CheckForm(form, forms...); err != nil {
		return err
	}
	switch form {
	case "json":
		return layout.PrintJSON(a.Out, value)
	case "yaml":
		return layout.PrintYAML(a.Out, value)
	default:
		return text()
	}
}

// checkForm makes sure that print knows a form, for a command that does something before it prints.
func CheckForm(form string, forms ...string) error {
	if form == "json" || form == "yaml" || slices.Contains(forms, form) {
		return nil
	}
	return fmt.Errorf("--output %q: want %s, json or yaml", form, strings.Join(forms, ", "))
}

// addOutput adds the flag for the form.
func AddOutput(cmd *cobra.Command, form *string, forms ...string) {
	cmd.Flags().StringVarP(form, "output", "o", forms[0], "form of the output: "+strings.Join(forms, ", ")+", json or yaml")
}

// describe prints a doc in the form that was asked for.
func PrintDescription(w io.Writer, output string, doc any, plain func(io.Writer) error) error {
	switch output {
	case "plaintext":
		return plain(w)
	case "json":
		return layout.PrintJSON(w, doc)
	default:
		return fmt.Errorf("--output %q: want plaintext or json", output)
	}
}
