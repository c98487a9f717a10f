package v1_test

import (
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
)

// foreignValues fills the fields that contain raw JSON, which random bytes are not.
func foreignValues(serializer.CodecFactory) []any {
	return []any{
		func(raw *runtime.RawExtension, c randfill.Continue) {
			container := map[string]string{"name": c.String(0), "image": c.String(0), c.String(10): c.String(0)}
			encoded, err := json.Marshal(container)
			if err != nil {
				panic(err)
			}
			raw.Raw = encoded
		},
		func(raw *metav1.FieldsV1, c randfill.Continue) {
			encoded, err := json.Marshal(map[string]struct{}{"f:" + c.String(10): {}})
			if err != nil {
				panic(err)
			}
			raw.SetRawBytes(encoded)
		},
	}
}

func TestRandomObjectsRoundTrip(t *testing.T) {
	t.Parallel()
	const objectsPerKind = 100

	scheme := newScheme(t)
	decoder := newDecoder(t)
	fill := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, foreignValues)
	for kind, version := range declaredKinds(scheme) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			gvk := version.WithKind(kind)
			for seed := range int64(objectsPerKind) {
				want, err := scheme.New(gvk)
				require.NoError(t, err)
				fuzzer.FuzzerFor(fill, rand.NewSource(seed), serializer.NewCodecFactory(scheme)).
					MaxDepth(30).Fill(want)
				want.GetObjectKind().SetGroupVersionKind(gvk)
				require.True(t, equality.Semantic.DeepEqual(want, want.DeepCopyObject()), "deep copy, seed %d", seed)

				encoded, err := json.Marshal(want)
				require.NoError(t, err)
				got, _, err := decoder.Decode(encoded, nil, nil)
				require.NoError(t, err, "seed %d: %s", seed, encoded)
				if !equality.Semantic.DeepEqual(want, got) {
					require.Equal(t, want, got, "seed %d", seed)
				}
			}
		})
	}
}
