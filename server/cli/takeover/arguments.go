package takeover

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cleat-dev/cleat/server/internal/setup/takeover"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// ServerFlags returns the flags of a server and the options that they set.
type ServerFlags func() (*pflag.FlagSet, *config.Options)

// arguments returns a function that reads the arguments of a Velero server as cleat's server would.
func arguments(server ServerFlags) func(args []string) takeover.Parsed {
	return func(args []string) (p takeover.Parsed) {
		for p.Kept = append([]string(nil), args...); ; {
			flags, options := server()
			err := flags.Parse(p.Kept)
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
				p.Warnings, p.Err = options.Warnings(flags), options.Complete()
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
