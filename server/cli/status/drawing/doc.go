// Package drawing draws the graph of a manifest: as a text tree, for Graphviz and Mermaid, and as a picture in SVG or
// HTML that needs nothing else, or as a part of a page. The same graph gives the same bytes on any machine.
//
//	Graph     graph.go build.go   nodes and edges, and a smaller graph of many of them
//	arrange   arrange.go order.go where everything is in a picture: layers, an order with few crossings, and alignment
//	SVG, HTML svg.go html.go      pictures, in light and in dark
//	Tree, DOT, Mermaid            tree.go dot.go mermaid.go
//
// Names in a manifest are foreign text. Each form escapes them, and none passes on what could control a terminal.
//
// Start reading at graph.go.
package drawing
