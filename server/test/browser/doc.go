// Command browser drives a real browser for tests: Debian's headless Chromium, which it unpacks into the cache, and
// axe-core, which "make browser" fetches from npm. It is a module of its own, because nothing else needs what it needs.
//
// It reads commands as lines of JSON and answers each with a line of JSON; see command and answer in main.go. Several
// tests share the browser: each has tabs of its own, with cookies of their own. Fonts are those of a package, so that
// pages look the same everywhere. The client for tests is in server/test/console. "browser build" only unpacks
// Chromium.
package main
