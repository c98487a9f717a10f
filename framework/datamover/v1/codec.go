package v1

import datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"

// The functions Encode return the request to the mover registered as plugin, and the functions Decode what a result
// holds, for hosts and for the kits that test plugins. They check nothing.

// EncodeBackup returns the request for input, without Report.
func EncodeBackup(plugin string, input *BackupInput) *datamoverv1.BackupRequest {
	return &datamoverv1.BackupRequest{
		Plugin: plugin, Repository: encodeRepository(input.Repository), Key: input.Key, Volume: encodeVolume(input.Volume),
		Parent: input.Parent, Full: input.Full, Source: encodeSource(input.Source), Tags: input.Tags,
		Settings: input.Settings, Again: input.Again,
	}
}

func decodeBackup(req *datamoverv1.BackupRequest) *BackupInput {
	return &BackupInput{
		Repository: decodeRepository(req.GetRepository()), Key: req.GetKey(), Volume: decodeVolume(req.GetVolume()),
		Parent: req.GetParent(), Full: req.GetFull(), Source: decodeSource(req.GetSource()), Tags: req.GetTags(),
		Settings: req.GetSettings(), Again: req.GetAgain(),
	}
}

func encodeBackup(output *BackupOutput) *datamoverv1.BackupResult {
	return &datamoverv1.BackupResult{
		SnapshotId: output.SnapshotID, Bytes: output.Bytes, NewBytes: output.NewBytes, Warnings: output.Warnings,
	}
}

// DecodeBackup returns the output in a result.
func DecodeBackup(sent *datamoverv1.BackupResult) BackupOutput {
	return BackupOutput{
		SnapshotID: sent.GetSnapshotId(), Bytes: sent.GetBytes(), NewBytes: sent.GetNewBytes(),
		Warnings: sent.GetWarnings(),
	}
}

// EncodeRestore returns the request for input, without Report.
func EncodeRestore(plugin string, input *RestoreInput) *datamoverv1.RestoreRequest {
	return &datamoverv1.RestoreRequest{
		Plugin: plugin, Repository: encodeRepository(input.Repository), SnapshotId: input.SnapshotID,
		Volume: encodeVolume(input.Volume), Settings: input.Settings, Bytes: input.Bytes,
	}
}

func decodeRestore(req *datamoverv1.RestoreRequest) *RestoreInput {
	return &RestoreInput{
		Repository: decodeRepository(req.GetRepository()), SnapshotID: req.GetSnapshotId(),
		Volume: decodeVolume(req.GetVolume()), Settings: req.GetSettings(), Bytes: req.GetBytes(),
	}
}

func encodeRestore(output *RestoreOutput) *datamoverv1.RestoreResult {
	return &datamoverv1.RestoreResult{Bytes: output.Bytes, Warnings: output.Warnings}
}

// DecodeRestore returns the output in a result.
func DecodeRestore(sent *datamoverv1.RestoreResult) RestoreOutput {
	return RestoreOutput{Bytes: sent.GetBytes(), Warnings: sent.GetWarnings()}
}

// EncodeForget returns the request for input, without Report.
func EncodeForget(plugin string, input *ForgetInput) *datamoverv1.ForgetRequest {
	return &datamoverv1.ForgetRequest{
		Plugin: plugin, Repository: encodeRepository(input.Repository), SnapshotIds: input.SnapshotIDs, Tags: input.Tags,
	}
}

func decodeForget(req *datamoverv1.ForgetRequest) *ForgetInput {
	return &ForgetInput{
		Repository: decodeRepository(req.GetRepository()), SnapshotIDs: req.GetSnapshotIds(), Tags: req.GetTags(),
	}
}

func encodeForget(output *ForgetOutput) *datamoverv1.ForgetResult {
	return &datamoverv1.ForgetResult{Kept: output.Kept, Warnings: output.Warnings}
}

// DecodeForget returns the output in a result.
func DecodeForget(sent *datamoverv1.ForgetResult) ForgetOutput {
	return ForgetOutput{Kept: sent.GetKept(), Warnings: sent.GetWarnings()}
}

// EncodeMaintain returns the request for input, without Report.
func EncodeMaintain(plugin string, input *MaintainInput) *datamoverv1.MaintainRequest {
	return &datamoverv1.MaintainRequest{
		Plugin: plugin, Repository: encodeRepository(input.Repository), Settings: input.Settings,
	}
}

func decodeMaintain(req *datamoverv1.MaintainRequest) *MaintainInput {
	return &MaintainInput{Repository: decodeRepository(req.GetRepository()), Settings: req.GetSettings()}
}

func encodeMaintain(output *MaintainOutput) *datamoverv1.MaintainResult {
	return &datamoverv1.MaintainResult{FreedBytes: output.FreedBytes, Warnings: output.Warnings}
}

// DecodeMaintain returns the output in a result.
func DecodeMaintain(sent *datamoverv1.MaintainResult) MaintainOutput {
	return MaintainOutput{FreedBytes: sent.GetFreedBytes(), Warnings: sent.GetWarnings()}
}

// EncodeCheck returns the request for input, without Report.
func EncodeCheck(plugin string, input *CheckInput) *datamoverv1.CheckRequest {
	return &datamoverv1.CheckRequest{
		Plugin: plugin, Repository: encodeRepository(input.Repository), Depth: encodeDepth(input.Depth),
		Create: input.Create, Settings: input.Settings, SnapshotIds: input.SnapshotIDs,
	}
}

func decodeCheck(req *datamoverv1.CheckRequest) *CheckInput {
	return &CheckInput{
		Repository: decodeRepository(req.GetRepository()), Depth: decodeDepth(req.GetDepth()), Create: req.GetCreate(),
		Settings: req.GetSettings(), SnapshotIDs: req.GetSnapshotIds(),
	}
}

func encodeCheck(output *CheckOutput) *datamoverv1.CheckResult {
	return &datamoverv1.CheckResult{
		Created: output.Created, Warnings: output.Warnings, LookedForSnapshots: output.Looked,
		MissingSnapshotIds: output.Missing,
	}
}

// DecodeCheck returns the output in a result.
func DecodeCheck(sent *datamoverv1.CheckResult) CheckOutput {
	return CheckOutput{
		Created: sent.GetCreated(), Warnings: sent.GetWarnings(), Looked: sent.GetLookedForSnapshots(),
		Missing: sent.GetMissingSnapshotIds(),
	}
}

func encodeProgress(progress Progress) *datamoverv1.Progress {
	return &datamoverv1.Progress{
		DoneBytes: progress.DoneBytes, TotalBytes: progress.TotalBytes,
		DoneFiles: progress.DoneFiles, TotalFiles: progress.TotalFiles, Activity: progress.Activity,
	}
}

// DecodeProgress returns the progress in a message.
func DecodeProgress(sent *datamoverv1.Progress) Progress {
	return Progress{
		DoneBytes: sent.GetDoneBytes(), TotalBytes: sent.GetTotalBytes(),
		DoneFiles: sent.GetDoneFiles(), TotalFiles: sent.GetTotalFiles(), Activity: sent.GetActivity(),
	}
}

func encodeRepository(r Repository) *datamoverv1.Repository {
	return &datamoverv1.Repository{
		Provider: r.Provider, Config: r.Config, Path: r.Path, Password: r.Password, ReadOnly: r.ReadOnly,
	}
}

func decodeRepository(sent *datamoverv1.Repository) Repository {
	return Repository{
		Provider: sent.GetProvider(), Config: sent.GetConfig(), Path: sent.GetPath(), Password: sent.GetPassword(),
		ReadOnly: sent.GetReadOnly(),
	}
}

func encodeVolume(v Volume) *datamoverv1.Volume {
	return &datamoverv1.Volume{Path: v.Path, Block: v.Block}
}

func decodeVolume(sent *datamoverv1.Volume) Volume {
	return Volume{Path: sent.GetPath(), Block: sent.GetBlock()}
}

// encodeSource returns nil for a source of which nothing is known.
func encodeSource(s Source) *datamoverv1.Source {
	if s == (Source{}) {
		return nil
	}
	return &datamoverv1.Source{
		Requester: s.Requester, Namespace: s.Namespace, Pod: s.Pod, Volume: s.Volume, Claim: s.Claim,
	}
}

func decodeSource(sent *datamoverv1.Source) Source {
	return Source{
		Requester: sent.GetRequester(), Namespace: sent.GetNamespace(), Pod: sent.GetPod(), Volume: sent.GetVolume(),
		Claim: sent.GetClaim(),
	}
}

func encodeDepth(depth Depth) datamoverv1.Depth {
	switch depth {
	case Access:
		return datamoverv1.Depth_DEPTH_ACCESS
	case Structure:
		return datamoverv1.Depth_DEPTH_STRUCTURE
	default:
		return datamoverv1.Depth_DEPTH_DATA
	}
}

// decodeDepth returns the depth that was sent; one of a newer protocol counts as the deepest that is known.
func decodeDepth(sent datamoverv1.Depth) Depth {
	switch sent {
	case datamoverv1.Depth_DEPTH_UNSPECIFIED, datamoverv1.Depth_DEPTH_ACCESS:
		return Access
	case datamoverv1.Depth_DEPTH_STRUCTURE:
		return Structure
	default:
		return Data
	}
}
