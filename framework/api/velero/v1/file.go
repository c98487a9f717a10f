package v1

// FileAnnotation on a DownloadRequest for the BackupResourceList of a backup requests another file of that backup,
// which a manifest writer has written: "manifest.json.gz". A server that does not know the annotation offers the
// resource list. The file "all-files.zip" is an archive of all files of the backup.
const FileAnnotation = "cleat.dev/file"
