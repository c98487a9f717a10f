// Package requests answers DownloadRequests and ServerStatusRequests, and deletes them some time later.
//
// It may import package run, server/internal/bucket/download and the object storage. Start reading at downloads.go and
// statuses.go.
package requests
