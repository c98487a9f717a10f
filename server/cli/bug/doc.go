// Package bug has the command that prints the text of a report about what does not work.
package bug
