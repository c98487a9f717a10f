package glue

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionsComeFromBuildInfo(t *testing.T) {
	t.Parallel()
	const ours, theirs = "github.com/cleat-dev/cleat", "example.io/plugin"
	for name, test := range map[string]struct {
		build             *debug.BuildInfo
		plugin, framework string
	}{
		"no modules": {nil, "", ""},
		"an author's": {&debug.BuildInfo{Main: debug.Module{Path: theirs, Version: "v1.2.0"},
			Deps: []*debug.Module{{Path: "x", Version: "v9.0.0"}, {Path: ours, Version: "v0.3.0"}}}, "v1.2.0", "v0.3.0"},
		"from a checkout": {&debug.BuildInfo{Main: debug.Module{Path: theirs, Version: "(devel)"},
			Deps: []*debug.Module{{Path: ours, Version: "v0.3.0"}}}, "", "v0.3.0"},
		"with a replacement": {&debug.BuildInfo{Main: debug.Module{Path: theirs},
			Deps: []*debug.Module{{Path: ours, Version: "v0.3.0", Replace: &debug.Module{Path: "fork", Version: "v0.4.0"}}}}, "",
			"v0.4.0"},
		"with a folder": {&debug.BuildInfo{Main: debug.Module{Path: theirs},
			Deps: []*debug.Module{{Path: ours, Version: "v0.3.0", Replace: &debug.Module{Path: "../cleat"}}}}, "", ""},
		"our own":    {&debug.BuildInfo{Main: debug.Module{Path: ours, Version: "v0.3.0"}}, "v0.3.0", "v0.3.0"},
		"without us": {&debug.BuildInfo{Main: debug.Module{Path: theirs, Version: "v1.2.0"}}, "v1.2.0", ""},
	} {
		require.Equal(t, test.plugin, pluginVersion(test.build), name)
		require.Equal(t, test.framework, frameworkVersion(test.build), name)
	}
}
