// Package itemactions holds the built-in actions on the items of backups and restores, with the names and semantics
// that they have in Velero. They are plugins like any other and built on framework only.
//
// register.go lists all actions; each family of resources has a folder. An action that changes nothing returns a nil
// item, so that the item is not encoded again. No action loses unknown fields.
//
// Velero has further actions for the data of snapshots: dataupload. register_test.go accounts for each. Those of csi
// are called only with the feature EnableCSI.
package itemactions
