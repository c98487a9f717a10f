package v1

import "cmp"

// VeleroDataMover is Velero's own data mover, of which Velero has agents of its own.
const VeleroDataMover = "velero"

// The built-in data movers, one for each engine. A load never names Velero's, because Velero's agents would move the
// data, too. What a backup has stored does, see StoredDataMover.
const (
	KopiaDataMover  = "cleat.dev/kopia"
	ResticDataMover = "cleat.dev/restic"
)

// DefaultUploader is the engine with which the volumes of a backup are stored if nothing else is set, as in Velero.
const DefaultUploader = RepositoryTypeKopia

// IsVeleroDataMover reports whether spec.datamover of a Backup, DataUpload or DataDownload means Velero's own data
// mover. Versions after 1.18 have one for files and one for blocks, which write to the same repositories.
func IsVeleroDataMover(name string) bool {
	switch name {
	case "", VeleroDataMover, "velero-fs", "velero-block":
		return true
	}
	return false
}

// DataMoverFor returns the name of the data mover that moves the data of a load or of a backup whose spec.datamover is
// name: Velero's own stands for the built-in one for repositories of an engine.
func DataMoverFor(name string, engine RepositoryType) string {
	if IsVeleroDataMover(name) {
		return MoverOf(engine)
	}
	return name
}

// StoredDataMover returns the name by which the files of a backup name a data mover, so that Velero restores and
// deletes the data, too: data in repositories of kopia is Velero's, whichever of the two has moved it.
func StoredDataMover(name string) string {
	if EngineOf(name) == RepositoryTypeKopia {
		return VeleroDataMover
	}
	return name
}

// MoverOf returns the built-in data mover for repositories of an engine, "" if there is none.
func MoverOf(engine RepositoryType) string {
	switch engine {
	case RepositoryTypeRestic:
		return ResticDataMover
	case RepositoryTypeKopia:
		return KopiaDataMover
	}
	return ""
}

// EngineOf returns the engine of the repositories of a data mover, "" if it is not known.
func EngineOf(mover string) RepositoryType {
	switch {
	case mover == ResticDataMover:
		return RepositoryTypeRestic
	case mover == KopiaDataMover, IsVeleroDataMover(mover):
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

// UploaderOf returns the engine with which the volumes of a backup are stored, as the server has annotated the copy of
// the Backup for plugins.
func UploaderOf(b *Backup) RepositoryType {
	return cmp.Or(RepositoryType(b.Annotations[UploaderTypeAnnotation]), DefaultUploader)
}
