// Package validation checks what the specs of backups and restores have in common: lists of resources and namespaces,
// label selectors, and the config maps that they refer to.
//
// Each function returns the problems for status.validationErrors; an error means that it could not find out. The texts
// of the checks are Velero's. It may import the filters and package run. Start reading at lists.go.
package validation
