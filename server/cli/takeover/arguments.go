package takeover

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cleat-dev/cleat/server/internal/setup/takeover"
)

// Program is a program of cleat that runs in place of one of Velero.
type Program struct {
	Flags    *pflag.FlagSet
	Complete func() error    // validates the values of the flags
	Warnings func() []string // on flags that have no effect
	Check    takeover.Check
}

// arguments returns a function that reads the arguments of a program of Velero as one of cleat would.
func arguments(of func() Program) func(args []string) takeover.Parsed {
	return func(args []string) (p takeover.Parsed) {
		for p.Kept = append([]string(nil), args...); ; {
			program := of()
			err := program.Flags.Parse(p.Kept)
			var unknown *pflag.NotExistError
			if errors.As(err, &unknown) {
				i := indexOf(p.Kept, unknown)
				if i >= 0 {
					p.Unknown = append(p.Unknown, p.Kept[i])
					p.Kept = without(p.Kept, i)
					continue
				}
			}
			if p.Err = err; err == nil {
				p.Warnings, p.Err, p.Check = program.Warnings(), program.Complete(), program.Check
			}
			return p
		}
	}
}

// indexOf returns the position of the argument with an unknown flag, -1 if there is none.
func indexOf(args []string, unknown *pflag.NotExistError) int {
	for i, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if name == "--"+unknown.GetSpecifiedName() || unknown.GetSpecifiedShortnames() != "" && name == "-"+
			unknown.GetSpecifiedShortnames() {
			return i
		}
	}
	return -1
}

// without returns the arguments without the flag at i, and without its value if that is an argument of its own.
func without(args []string, i int) []string {
	n := 1
	if !strings.Contains(args[i], "=") && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
		n = 2
	}
	return append(append([]string(nil), args[:i]...), args[i+n:]...)
}
