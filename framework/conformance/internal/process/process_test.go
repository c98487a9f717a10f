package process

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestParseHandshakeReportsErrors(t *testing.T) {
	t.Parallel()
	network, address, certificate, err := parseHandshake("1|2|unix|/tmp/x|grpc|AbC")
	require.NoError(t, err)
	require.Equal(t, "unix", network)
	require.Equal(t, "/tmp/x", address)
	require.Equal(t, "AbC", certificate)
	for line, want := range map[string]string{
		"":                       `the first line on stdout is ""`,
		"hello":                  `the first line on stdout is "hello"`,
		"2|2|unix|/tmp/x|grpc":   `core protocol "2"`,
		"1|1|unix|/tmp/x|grpc":   `protocol version "1"`,
		"1|2|pipe|/tmp/x|grpc":   `network "pipe"`,
		"1|2|unix|/tmp/x|netrpc": `protocol "netrpc"`,
	} {
		_, _, _, err := parseHandshake(line)
		require.ErrorContains(t, err, want)
	}
}

// FuzzStdioData proves that any bytes can be decoded as StdioData.
func FuzzStdioData(f *testing.F) {
	f.Add([]byte{})
	f.Add(protowire.AppendBytes(protowire.AppendTag([]byte{8, 1}, 2, protowire.BytesType), []byte("text")))
	f.Add([]byte{0x12, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, data := stdioData(raw)
		require.LessOrEqual(t, len(data), len(raw))
	})
}
