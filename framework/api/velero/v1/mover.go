package v1

// BuiltInDataMover is the data mover of backups that name none, and of those that name Velero's own. A DataUpload never
// names that, because Velero's agents would move the data, too.
const BuiltInDataMover = "cleat.dev/restic"

// IsVeleroDataMover reports whether spec.datamover of a Backup, DataUpload or DataDownload means Velero's own data
// mover.
func IsVeleroDataMover(name string) bool { return name == "" || name == "velero" }

// DataMoverFor returns the name of the data mover that moves the data of a backup whose spec.datamover is name.
func DataMoverFor(name string) string {
	if IsVeleroDataMover(name) {
		return BuiltInDataMover
	}
	return name
}

// MoverOf returns the built-in data mover for repositories of an engine, "" if there is none.
func MoverOf(engine RepositoryType) string {
	if engine == RepositoryTypeRestic {
		return BuiltInDataMover
	}
	return ""
}

// EngineOf returns the engine of the repositories of a data mover, "" if it is not known.
func EngineOf(mover string) RepositoryType {
	switch {
	case mover == BuiltInDataMover:
		return RepositoryTypeRestic
	case IsVeleroDataMover(mover):
		return RepositoryTypeKopia
	}
	return ""
}

// IsBuiltInMover reports whether a data mover is a built-in one.
func IsBuiltInMover(name string) bool { return name != "" && MoverOf(EngineOf(name)) == name }

// Engine returns the engine of the repository that has the data. The first servers of Velero had restic alone, and did
// not name it.
func (s *PodVolumeBackupSpec) Engine() RepositoryType {
	switch {
	case s.UploaderType != "":
		return s.UploaderType
	case s.RepoIdentifier != "":
		return RepositoryTypeRestic
	}
	return RepositoryTypeKopia
}
