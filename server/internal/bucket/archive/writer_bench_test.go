package archive

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/pgzip"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// benchItems returns objects of about 2 KB, 100 MB in all, as compressible as those of a cluster.
func benchItems() [][]byte {
	const total, size = 100_000_000, 2_000
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 3000)
	for i := range words {
		word := make([]byte, 4+r.IntN(10))
		for j := range word {
			word[j] = byte('a' + r.IntN(26))
		}
		words[i] = string(word)
	}
	var items [][]byte
	for n := range total / size {
		var b bytes.Buffer
		fmt.Fprintf(&b, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z",`+
			`"labels":{"app.kubernetes.io/name":%q,"app.kubernetes.io/part-of":%q},"managedFields":[{"apiVersion":"v1",`+
			`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:settings":{}},"f:metadata":{"f:labels":{".":{},`+
			`"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/part-of":{}}}},"manager":"kubectl-client-side-apply",`+
			`"operation":"Update","time":"2026-01-02T03:04:05Z"}],"name":"settings-%d","namespace":"team-%d",`+
			`"resourceVersion":"%d","uid":"%08x-%04x-%04x-%04x-%012x"},"data":{"settings":"`,
			words[r.IntN(len(words))], words[n%20], n, n%20, 1_000_000+n,
			r.Uint32(), r.IntN(1<<16), r.IntN(1<<16), r.IntN(1<<16), r.Uint64()>>16)
		for b.Len() < size-4 {
			b.WriteString(words[r.IntN(len(words))] + `=` + words[r.IntN(len(words))] + `\n`)
		}
		b.WriteString(`"}}`)
		items = append(items, b.Bytes())
	}
	return items
}

// BenchmarkArchive and BenchmarkCompressorAlone process the same 100 MB of objects. The archive holds each object
// twice; the compressor alone gets the bytes of each object once.
func BenchmarkArchive(b *testing.B) {
	items := benchItems()
	gr := schema.GroupResource{Resource: "configmaps"}
	var out counter
	for b.Loop() {
		out = 0
		w, err := NewWriter(&out, when)
		require.NoError(b, err)
		for n, item := range items {
			require.NoError(b, w.Item(gr, "v1", true, fmt.Sprintf("team-%d", n%20), fmt.Sprintf("settings-%d", n), item))
		}
		require.NoError(b, w.Close())
	}
	b.ReportMetric(float64(out), "bytes")
}

func BenchmarkCompressorAlone(b *testing.B) {
	items := benchItems()
	for name, compressor := range map[string]func(io.Writer) io.WriteCloser{
		"parallel": func(w io.Writer) io.WriteCloser { return pgzip.NewWriter(w) },
		"standard": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	} {
		b.Run(name, func(b *testing.B) {
			var out counter
			for b.Loop() {
				out = 0
				w := compressor(&out)
				for _, item := range items {
					_, err := w.Write(item)
					require.NoError(b, err)
				}
				require.NoError(b, w.Close())
			}
			b.ReportMetric(float64(out), "bytes")
		})
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
