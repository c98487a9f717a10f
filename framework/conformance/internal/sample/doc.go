// Package sample holds the objects that actions are asked about, and adapts them to the selectors of actions.
//
// It imports the protos that Velero's kinds share. Start reading at samples.go.
package sample
