// Package terminal has the terminals on which tests run commands.
package terminal
