// Package console tests the console: the program "cleat console", with real servers, accounts and backups, over HTTP.
//
// Start reading at visitor_test.go, which starts a console and asks for its pages.
package console
