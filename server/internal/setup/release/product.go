package release

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Product has an image: the server, or a plugin with the programs that it needs.
type Product struct {
	Name    string
	Example bool // has no archive

	server   bool
	programs []source // the first one gives the product its version
}

// Products returns all products.
func Products() []Product {
	products := []Product{
		{Name: "cleat", server: true, programs: []source{{name: "cleat", module: ".", pkg: "./server/cmd/cleat"}}},
		{Name: "cleat-restic", programs: []source{
			{name: "cleat-restic", module: ".", pkg: "./plugins/restic/cmd/cleat-restic"},
			{name: ".cleat-restic/restic", module: "server/internal/setup/release/restic",
				pkg: "github.com/restic/restic/cmd/restic", of: "github.com/restic/restic"},
		}},
		{Name: "cleat-kopia", programs: []source{
			{name: "cleat-kopia", module: "plugins/kopia", pkg: "./cmd/cleat-kopia"}}},
		{Name: "manifest-writers", Example: true,
			programs: []source{{name: "manifest-writers", module: "examples/manifest-writers", pkg: "."}}},
	}
	for _, name := range []string{"admission-policy", "data-mover", "first-plugin", "load-budget", "small-mover"} {
		products = append(products,
			Product{Name: name, Example: true, programs: []source{{name: name, module: ".", pkg: "./examples/" + name}}})
	}
	return products
}

// Select returns the products with some names, or all if there are no names.
func Select(names []string) ([]Product, error) {
	all := Products()
	if len(names) == 0 {
		return all, nil
	}
	var selected []Product
	for _, name := range names {
		i := slices.IndexFunc(all, func(p Product) bool { return p.Name == name })
		if i < 0 {
			var known []string
			for _, p := range all {
				known = append(known, p.Name)
			}
			return nil, fmt.Errorf("there is no product %q; there are %s", name, strings.Join(known, ", "))
		}
		selected = append(selected, all[i])
	}
	return selected, nil
}

// Built is a product for a platform.
type Built struct {
	Product
	Platform v1.Platform
	Version  string
	Programs []Program

	copier Program // of the image of a plugin
	base   base    // of the image of the server
}

// Build builds a product from the source tree at root into a directory.
func (p Product) Build(ctx context.Context, root, dir, version string, platform v1.Platform) (Built, error) {
	dir = filepath.Join(dir, platform.OS+"-"+platform.Architecture+platform.Variant)
	b := Built{Product: p, Platform: platform, Version: version}
	for _, s := range p.programs {
		built, err := s.build(ctx, root, filepath.Join(dir, filepath.FromSlash(s.name)), version, platform)
		if err != nil {
			return Built{}, err
		}
		b.Programs = append(b.Programs, built)
	}
	if p.server {
		return b, nil
	}
	copier := source{name: copierName, module: ".", pkg: "./server/cmd/copy-plugins"}
	var err error
	b.copier, err = copier.build(ctx, root, filepath.Join(dir, copierName), version, platform)
	return b, err
}

// Of returns a product whose programs are built already: paths has them in the order in which Build makes them, and
// copier is the one that copies plugins, which the server does not have.
func (p Product) Of(version string, platform v1.Platform, copier string, paths ...string) Built {
	b := Built{Product: p, Platform: platform, Version: version, copier: Program{Name: copierName, Version: version,
		Path: copier}}
	for i, path := range paths {
		b.Programs = append(b.Programs, Program{Name: p.programs[i].name, Version: version, Path: path})
	}
	return b
}

// copierName is the program by which the container of a plugin image copies its plugins to the server.
const copierName = "copy-plugins"
