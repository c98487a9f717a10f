// Package reference finds which objects an object refers to, by a table of the fields that hold names of other objects.
//
//	Row       row.go           one row of the table, as in references.yaml and in backups.references of the config file
//	the table references.yaml  the references of built-in resources and of well-known custom ones
//	Table     table.go         the rows that apply to each resource, compiled to trees of fields
//	Table.Of  walk.go          the references of one object, in one pass over its JSON
//
// Objects are foreign data: a field that does not have the type of its row, or no valid name, is not a reference, and
// not an error.
//
// It may import framework/manifest, jsontext, YAML, and the group-resource type of apimachinery. Start at row.go.
package reference
