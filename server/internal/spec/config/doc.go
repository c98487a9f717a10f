// Package config holds the settings of the server: as flags with Velero's spelling (options.go), and as the file that
// --config names (file.go), which also has the settings without a flag: the policies, and how plugins are run.
//
//	File                 file.go                   every key of the file
//	Parse                parse.go, yaml.go         from YAML to a File; reports all mistakes with file, line and key
//	the file's schema    file.schema.json          what values the keys may have; its formats are in formats.go
//	Object, match        object.go, schema.go      a part of the file as JSON, validated against a JSON Schema
//	violations           violations.go             the messages about violations of a schema
//	Check                check.go                  the plugins that the file names, and their configuration
//
// It may import framework, versioning/kinds, pflag, YAML, JSON Schema and the quantities of apimachinery, and of the
// server only tracing and reference, which validate an endpoint and references. Start at Options and File.
package config
