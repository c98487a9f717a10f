// Package validation checks the common parts of the specs of backups and restores: lists of resources and namespaces,
// label selectors, and the config maps to which they refer.
//
// Each function returns the problems for status.validationErrors; an error means that the check could not be made. The
// texts of the checks are Velero's. It may import the filters and package run. Start reading at lists.go.
package validation
