// Package config holds the settings of the server: their names, defaults and limits, as flags with
// Velero's spelling. It imports pflag only. Start reading at Options.
package config
