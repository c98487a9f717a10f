package release

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// SBOM returns the programs of a product with their modules as CycloneDX's JSON, from the build information that the Go
// linker has written into them, and the packages of Debian beside them.
func (b Built) SBOM() ([]byte, error) {
	var main *cyclonedx.Component
	var components []cyclonedx.Component
	programs := b.Programs
	if !b.server {
		programs = append(slices.Clone(programs), b.copier)
	}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program.Path)
		if err != nil {
			return nil, fmt.Errorf("read the modules of %s: %w", program.Path, err)
		}
		if main == nil {
			main = new(module(info.Main.Path, program.Version))
			main.Type = cyclonedx.ComponentTypeApplication
			components = append(components, module("stdlib", strings.TrimPrefix(info.GoVersion, "go")))
		} else if info.Main.Path != main.Name {
			components = append(components, module(info.Main.Path, program.Version))
		}
		for _, dependency := range info.Deps {
			switch {
			case dependency.Replace == nil:
			case strings.HasPrefix(dependency.Replace.Path, "."): // it is in this tree
				dependency.Version = program.Version
			default:
				dependency = dependency.Replace
			}
			components = append(components, module(dependency.Path, dependency.Version))
		}
	}
	components = append(components, b.base.packages...)
	compare := func(a, b cyclonedx.Component) int { return strings.Compare(a.PackageURL, b.PackageURL) }
	slices.SortFunc(components, compare)
	components = slices.CompactFunc(components, func(a, b cyclonedx.Component) bool { return compare(a, b) == 0 })
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: main}
	bom.Components = &components
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("write the SBOM: %w", err)
	}
	return out.Bytes(), nil
}

func module(path, version string) cyclonedx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: purl}
}
