// Package fields warns about fields in the specs of custom resources that this server does not know, which a newer
// version of Velero may have added: by an event of the object, and in the log. Backups and Restores are not its
// concern, whose runs have these warnings in their results, nor are loads, for which node agents warn. Start reading at
// controller.go.
//
// It may import package run.
package fields
