// Package download offers files of backups and restores over HTTP, for object stores that cannot sign URLs, and puts into a
// DownloadRequest why there is no URL. It keeps no state: a token is valid if the DownloadRequest holds it.
//
// It may import server/store, framework/api and the client of controller-runtime. Start reading at address.go.
package download
