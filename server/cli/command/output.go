package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Print writes value as JSON or YAML if form is one of these; otherwise it calls text. forms are the names of the forms
// that text handles.
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

// CheckForm returns an error if Print does not support a form. Commands that act before they print call it first.
func CheckForm(form string, forms ...string) error {
	if form == "json" || form == "yaml" || slices.Contains(forms, form) {
		return nil
	}
	return fmt.Errorf("--output %q: want %s, json or yaml", form, strings.Join(forms, ", "))
}

// AddOutput adds the flag --output. The first of forms is its default.
func AddOutput(cmd *cobra.Command, form *string, forms ...string) {
	cmd.Flags().StringVarP(form, "output", "o", forms[0], "form of the output: "+strings.Join(forms, ", ")+
		", json or yaml")
}

// PrintFlag is the flag --output of a command that creates an object: it prints the object instead.
type PrintFlag struct{ form string }

// Add adds the flag of a command that creates an object of the given kind.
func (f *PrintFlag) Add(flags *pflag.FlagSet, kind string) {
	flags.StringVarP(&f.form, "output", "o", "", "print the "+kind+" as json or yaml instead of creating it")
}

// Form returns the value of the flag.
func (f *PrintFlag) Form() string { return f.form }

// Print prints object if the flag is given, and reports whether it is.
func (f *PrintFlag) Print(w io.Writer, object client.Object) (given bool, err error) {
	switch f.form {
	case "":
		return false, nil
	case "json":
		return true, layout.PrintJSON(w, object)
	case "yaml":
		return true, layout.PrintYAML(w, object)
	default:
		return true, fmt.Errorf("--output %q: want json or yaml", f.form)
	}
}
