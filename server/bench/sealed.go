package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

// sealedTurns is the number of pairs of backups that are compared; see manifestTurns.
const sealedTurns = 15

// sealedOverPlain reports the time of a backup of about 6,900 objects to a sealed location, divided by the time to the
// store behind it. Servers with both take turns. The figure is the median of 15 turns.
func sealedOverPlain(ctx context.Context, s *site, report func(string, float64)) error {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	_, err = s.dynamic.Resource(secrets).Namespace(roundtrip.Namespace).Create(ctx,
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "seal-keys"},
			"data": map[string]any{"identities": base64.StdEncoding.EncodeToString([]byte(identity.String()))},
		}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	plain := map[string]any{"provider": "cleat.dev/s3",
		"config": map[string]any{"store": nil, "secret": nil, "recipients": nil}}
	sealed := map[string]any{"provider": "cleat.dev/sealed", "config": map[string]any{"store": "cleat.dev/s3",
		"secret": "seal-keys/identities", "recipients": identity.Recipient().String()}}
	var ratios []float64
	for turn := range sealedTurns {
		without, err := s.backupsTo(ctx, plain, fmt.Sprintf("plain-%d", turn))
		if err != nil {
			return err
		}
		with, err := s.backupsTo(ctx, sealed, fmt.Sprintf("sealed-%d", turn))
		if err != nil {
			return err
		}
		ratios = append(ratios, with/without)
		say("plain %.3fs, sealed %.3fs", without, with)
	}
	report("sealed_over_plain", median(ratios))
	return nil
}

// backupsTo is backups with a change of the location.
func (s *site) backupsTo(ctx context.Context, location map[string]any, name string) (seconds float64, err error) {
	patch, err := json.Marshal(map[string]any{"spec": location})
	if err != nil {
		return 0, err
	}
	at := s.dynamic.Resource(locations).Namespace(roundtrip.Namespace)
	_, err = at.Patch(ctx, "default", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return 0, err
	}
	return s.backups(ctx, name)
}
