// Command plugin announces the kind for tests, in the versions of its file name: "v1-v3". Its one weigher is called
// "example.io/" and that name.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	itemweigherv1 "github.com/cleat-dev/cleat/versioning/testkind/framework/itemweigher/v1"
	itemweigherv2 "github.com/cleat-dev/cleat/versioning/testkind/framework/itemweigher/v2"
	itemweigherv3 "github.com/cleat-dev/cleat/versioning/testkind/framework/itemweigher/v3"
)

func main() {
	versions := filepath.Base(os.Args[0])
	name := "example.io/" + versions
	var regs []framework.Registration
	for version := range strings.SplitSeq(versions, "-") {
		switch version {
		case "v1":
			regs = append(regs, itemweigherv1.Register(name,
				func(_ context.Context, setup *framework.Setup) (itemweigherv1.ItemWeigher, error) {
					return v1{setup.Logger()}, nil
				}))
		case "v2":
			regs = append(regs, itemweigherv2.Register(name,
				func(_ context.Context, setup *framework.Setup) (itemweigherv2.ItemWeigher, error) {
					return v2{setup.Logger()}, nil
				}))
		case "v3":
			regs = append(regs, itemweigherv3.Register(name,
				func(_ context.Context, setup *framework.Setup) (itemweigherv3.ItemWeigher, error) {
					return v3{setup.Logger()}, nil
				}))
		}
	}
	framework.Serve(regs...)
}

type v1 struct{ log hclog.Logger }

func (w v1) Weigh(_ context.Context, item *unstructured.Unstructured) (int64, error) {
	w.log.Info("weighed", "version", 1, "items", 1)
	return (bytesOf(item) + 1023) / 1024, nil
}

type v2 struct{ log hclog.Logger }

func (w v2) Weigh(
	_ context.Context, item *unstructured.Unstructured, backup *velerov1.Backup,
) (itemweigherv2.Weight, error) {
	w.log.Info("weighed", "version", 2, "items", 1)
	return itemweigherv2.Weight{Bytes: bytesOf(item), Exact: backup.Name == "exact"}, nil
}

type v3 struct{ log hclog.Logger }

func (w v3) Weigh(
	_ context.Context, items []*unstructured.Unstructured, backup *velerov1.Backup,
) ([]itemweigherv3.Weight, error) {
	w.log.Info("weighed", "version", 3, "items", len(items))
	var weights []itemweigherv3.Weight
	for _, item := range items {
		if item.GetName() == "lost" {
			continue
		}
		weights = append(weights, itemweigherv3.Weight{Bytes: bytesOf(item), Exact: backup.Name == "exact"})
	}
	return weights, nil
}

// bytesOf is the weight that the test wrote into the item.
func bytesOf(item *unstructured.Unstructured) int64 {
	bytes, _ := strconv.ParseInt(item.GetAnnotations()["bytes"], 10, 64)
	return bytes
}
