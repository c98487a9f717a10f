package manifest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// file is a manifest.json.gz with a claim, a pod that mounts it, and the pod's owner.
func file() []byte {
	var file bytes.Buffer
	w, err := manifest.NewWriter(&file, manifest.Header{Backup: manifest.Backup{Name: "nightly"}}, manifest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	claim := &manifest.Item{APIVersion: "v1", Resource: "persistentvolumeclaims", ItemKind: "PersistentVolumeClaim",
		Namespace: "shop", Name: "data", UID: "u1"}
	set := &manifest.Item{APIGroup: "apps", APIVersion: "v1", Resource: "statefulsets", ItemKind: "StatefulSet",
		Namespace: "shop", Name: "db", UID: "u2"}
	pod := &manifest.Item{APIVersion: "v1", Resource: "pods", ItemKind: "Pod", Namespace: "shop", Name: "db-0", UID: "u3"}
	pod.AddOwner("apps/v1", "StatefulSet", "db", "u2", true)
	pod.Edges = append(pod.Edges, manifest.Edge{
		Type: manifest.Reference, Strict: true, To: claim.Ref(), Path: "spec.volumes[0].persistentVolumeClaim.claimName",
	})
	for _, item := range []*manifest.Item{pod, set, claim} {
		if err := w.Add(item); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	return file.Bytes()
}

func printItems(file io.Reader) error {
	r, err := manifest.NewReader(file)
	if err != nil {
		return err
	}
	for item, err := range r.Items() {
		if err != nil {
			return err
		}
		fmt.Println(item, item.Labels)
	}
	return nil
}

func ExampleNewReader() {
	if err := printItems(bytes.NewReader(file())); err != nil {
		log.Fatal(err)
	}
	// Output:
	// persistentvolumeclaims/shop/v1/data.json map[]
	// pods/shop/v1/db-0.json map[]
	// statefulsets.apps/shop/v1/db.json map[]
}

func ExampleLoad() {
	m, _, err := manifest.Load(bytes.NewReader(file()))
	if err != nil {
		log.Fatal(err)
	}
	set := m.Find(manifest.Ref{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"})
	for _, child := range set.Children() {
		fmt.Println(child, "is owned by", child.Owners())
	}
	// Output: pods/shop/v1/db-0.json is owned by [statefulsets.apps/shop/v1/db.json]
}

func ExampleOpen() {
	content := file()
	f, err := manifest.Open(context.TODO(), manifest.NewRanger(bytes.NewReader(content), int64(len(content))))
	if err != nil {
		log.Fatal(err)
	}
	item, err := f.Get(context.TODO(), manifest.Ref{Resource: "pods", Namespace: "shop", Name: "db-0"})
	fmt.Println(item, err)
	// Output: pods/shop/v1/db-0.json <nil>
}

func ExampleGraph_Waves() {
	m, _, err := manifest.Load(bytes.NewReader(file()))
	if err != nil {
		log.Fatal(err)
	}
	waves, _ := m.Graph().Waves()
	for n, items := range waves {
		fmt.Println(n, items)
	}
	// Output:
	// 0 [persistentvolumeclaims/shop/v1/data.json statefulsets.apps/shop/v1/db.json]
	// 1 [pods/shop/v1/db-0.json]
}

func ExampleDiff() {
	monday, _, err := manifest.Load(bytes.NewReader(file()))
	if err != nil {
		log.Fatal(err)
	}
	for change, err := range manifest.Diff(manifest.Sorted(manifest.New()), manifest.Sorted(monday)) {
		fmt.Println(change.Type, change.After, err)
		break
	}
	// Output: added persistentvolumeclaims/shop/v1/data.json <nil>
}
