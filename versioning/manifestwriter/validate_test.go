package manifestwriter

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
)

func TestArtifactNameMustBeAFileName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"manifest.json":          "",
		"0_a-b.c":                "",
		"a":                      "",
		"a..b":                   "",
		strings.Repeat("a", 128): "",
		strings.Repeat("a", 129): "must be lower-case letters",
		"":                       `artifact name "" must be`,
		".hidden":                "must be lower-case letters",
		"..":                     "must be lower-case letters",
		"a/b":                    "must be lower-case letters",
		`a\b`:                    "must be lower-case letters",
		"A":                      "must be lower-case letters",
		"a b":                    "must be lower-case letters",
		"a\n":                    "must be lower-case letters",
		"é":                      "must be lower-case letters",
	} {
		var seen names
		err := seen.take(name)
		if want == "" {
			require.NoError(t, err, name)
			require.ErrorContains(t, seen.take(name), "is there twice", name)
		} else {
			require.ErrorContains(t, err, want, name)
		}
	}
}

// FuzzArtifacts proves that artifacts arrive whole, in order and separate, however they are cut: each byte of script is
// a message.
func FuzzArtifacts(f *testing.F) {
	f.Add([]byte("AxyBz"), true)
	f.Add([]byte("xA"), true)
	f.Add([]byte("AxA"), false)
	f.Add([]byte("A  x B"), true)
	f.Fuzz(func(t *testing.T, script []byte, endsWell bool) {
		end := io.EOF
		if !endsWell {
			end = errors.New("the process has exited")
		}
		want, last, rest := map[string]string{}, "", script
		for _, c := range script { // the expected artifacts by the contract
			if c >= 'A' && c <= 'Z' {
				last = fmt.Sprintf("a%d", c)
			} else if c != ' ' && last != "" {
				want[last] += string(rune(c))
			}
		}
		incoming := &artifacts{receive: func() (*manifestwriterv1.WriteResponse, error) {
			if len(rest) == 0 {
				return nil, end
			}
			c := rest[0]
			rest = rest[1:]
			switch {
			case c == ' ':
				return &manifestwriterv1.WriteResponse{}, nil
			case c >= 'A' && c <= 'Z':
				return &manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Artifact{
					Artifact: &manifestwriterv1.Artifact{Name: fmt.Sprintf("a%d", c)},
				}}, nil
			default:
				return &manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Content{
					Content: []byte(string(rune(c))),
				}}, nil
			}
		}}
		got := map[string]string{}
		err := incoming.each(func(name string, content io.Reader) error {
			read, err := io.ReadAll(content)
			got[name] = string(read)
			return err
		})
		if err != nil {
			return
		}
		require.True(t, endsWell, "what breaks off is never whole")
		for name, content := range got {
			require.Equal(t, want[name], content)
		}
		for name := range want {
			require.Contains(t, got, name)
		}
	})
}
