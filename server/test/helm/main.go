// Command helm renders a chart like "helm template", with Helm's own library. Tests compare its output with other
// renderings.
//
// It is a module of its own, so that the rest of the project does not need Helm.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	namespace := flag.String("namespace", "velero", "namespace of the release")
	values := flag.String("values", "", "file with values")
	flag.Parse()
	if err := render(os.Stdout, flag.Arg(0), *namespace, *values); err != nil {
		fmt.Fprintf(os.Stderr, "helm: %v\n", err)
		os.Exit(1)
	}
}

// render writes the definitions and the rendered templates of a chart.
func render(w io.Writer, dir, namespace, file string) error {
	loaded, err := loader.Load(dir)
	if err != nil {
		return err
	}
	given := common.Values{}
	if file != "" {
		if given, err = common.ReadValuesFile(file); err != nil {
			return err
		}
	}
	options := common.ReleaseOptions{Name: "velero", Namespace: namespace, IsInstall: true}
	values, err := util.ToRenderValues(loaded, given, options, nil)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(loaded, values)
	if err != nil {
		return err
	}
	for _, definition := range loaded.CRDObjects() {
		fmt.Fprintf(w, "---\n%s\n", definition.File.Data)
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(w, "---\n%s\n", rendered[name])
		}
	}
	return nil
}
