// Package download offers files of backups and restores over HTTP, for object stores that cannot sign URLs, and puts
// into a DownloadRequest why there is no URL. It keeps no state: a token is valid if the server has signed it, and its
// DownloadRequest exists.
//
// It may import server/internal/bucket/store, server/internal/kube/signing, framework/api and the client of
// controller-runtime. Start reading at grant.go.
package download
