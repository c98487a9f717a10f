// Package statustest has the fixtures of tests about the queue and its policies, and golden files.
package statustest
