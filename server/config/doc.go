// Package config holds the settings of the server: as flags with Velero's spelling (options.go), and as the file that
// --config names (file.go), which has what no flag says: the policies, and how plugins are run.
//
//	File                file.go      every key there is, with its limits in tags
//	reader, values      reader.go    the walk over YAML and File, which finds all mistakes with file, line and key
//	Object              object.go    configuration that goes to a plugin as JSON
//	Schema, Check       schema.go, check.go  what plugins say about theirs
//
// It may import framework, versioning/kinds, pflag, YAML and JSON Schema, and of the server tracing, which knows what
// an endpoint is. Start reading at Options and File.
package config
