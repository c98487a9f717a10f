package process

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFirstLine(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	tests := map[string]struct {
		start string
		want  []string
		wrong string
	}{
		"a program":              {start: "\x7fELF"},
		"nothing":                {start: ""},
		"half a mark":            {start: "#"},
		"a shell":                {start: "#!/bin/sh\nexit\n", want: []string{"/bin/sh"}},
		"without a line feed":    {start: "#!/bin/sh", want: []string{"/bin/sh"}},
		"spaces":                 {start: "#! \t/bin/sh  -e \nexit\n", want: []string{"/bin/sh", "-e"}},
		"one argument only":      {start: "#!/bin/sh -e -x\n", want: []string{"/bin/sh", "-e -x"}},
		"by env":                 {start: "#!/usr/bin/env sh\n", want: []string{sh}},
		"by env, with arguments": {start: "#!/usr/bin/env -S sh  -e -x\n", want: []string{sh, "-e", "-x"}},
		"by env, as one word":    {start: "#!/usr/bin/env -Ssh -e\n", want: []string{sh, "-e"}},
		"none": {start: "#!\n",
			wrong: `its first line "" names no interpreter, want #!/path/to/interpreter or #!/usr/bin/env NAME`},
		"relative":            {start: "#!sh\n", wrong: "names no interpreter"},
		"env alone":           {start: "#!/usr/bin/env\n", wrong: "is not understood, want #!/usr/bin/env NAME"},
		"env with two words":  {start: "#!/usr/bin/env sh -e\n", wrong: "is not understood"},
		"env with an option":  {start: "#!/usr/bin/env -i\n", wrong: "is not understood"},
		"env with a variable": {start: "#!/usr/bin/env -S A=b sh\n", wrong: "is not understood"},
		"env with quotes":     {start: "#!/usr/bin/env -S sh 'a b'\n", wrong: "is not understood"},
		"env finds nothing":   {start: "#!/usr/bin/env no-such-program\n", wrong: "find its interpreter: "},
		"too long":            {start: "#!/" + strings.Repeat("x", maxFirstLine-3), wrong: "is too long"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := firstLine([]byte(test.start))
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func FuzzFirstLine(f *testing.F) {
	for _, seed := range []string{"", "#!", "#!/bin/sh\n", "#!/usr/bin/env sh\n", "#!/usr/bin/env -S sh -e\n", "\x7fELF"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, start []byte) {
		args, err := firstLine(start[:min(len(start), maxFirstLine)])
		if err != nil || args == nil {
			return
		}
		require.True(t, filepath.IsAbs(args[0]), "%q", args)
		require.NotContains(t, strings.Join(args, " "), "\n")
	})
}
