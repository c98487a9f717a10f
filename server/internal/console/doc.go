// Package console is the frame of the console: it serves pages in a browser with the rights of the person who looks,
// and keeps them current. It knows neither a page nor a custom resource; those are in server/cli/console.
//
//   - server.go: the handler, and the way of a request through it
//   - guard.go: which requests are refused before anything else, and the headers of every answer
//   - door.go: who looks: the user of a kubeconfig (Loopback), or the bearer token of each request (Cluster); signin.go
//     asks for a token
//   - viewer.go: a person who looks, with a client that has exactly their rights
//   - feed.go: the objects of a kind as one viewer may see them, kept by one list and one watch; pool.go shares equal
//     objects between viewers
//   - ask.go: answers of the server to questions of a viewer, which are asked in the background
//   - hold.go: what a viewer has open, such as a file that was fetched for them
//   - page.go: a page, which is a document and the template of its main part, and one look at it
//   - table.go: the tables that commands print, for templates
//   - live.go: the same page again and again, as server-sent events; signal.go tells it what has changed
//   - assets.go: scripts and style sheets; compress.go compresses answers
//
// It may import packages of server/internal/kube. Start reading at page.go and server.go.
package console
