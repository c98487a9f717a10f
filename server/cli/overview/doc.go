// Package overview holds the command that shows what is protected and what is in trouble, as the first page of the
// console does. Start reading at overview.go.
package overview
