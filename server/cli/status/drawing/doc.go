// Package drawing draws the graph of a manifest: as a text tree, for Graphviz and Mermaid, and as a picture in SVG or
// HTML that needs nothing else. The same graph gives the same bytes on any machine.
//
// Names in a manifest are foreign text. Each form escapes them, and none passes on what could control a terminal.
//
// Start reading at graph.go.
package drawing
