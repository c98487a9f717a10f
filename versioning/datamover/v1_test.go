package datamover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/datamover"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
)

const name = "example.io/mover"

// recorder is a mover that keeps what it was asked and answers from its fields.
type recorder struct {
	asked []any
	work  func(ctx context.Context, report func(dmv1.Progress)) error
}

func (r *recorder) do(ctx context.Context, input any, report func(dmv1.Progress)) error {
	r.asked = append(r.asked, input)
	if r.work == nil {
		return nil
	}
	return r.work(ctx, report)
}

func (r *recorder) Backup(ctx context.Context, input *dmv1.BackupInput) (*dmv1.BackupOutput, error) {
	report := input.Report
	input.Report = nil
	return &dmv1.BackupOutput{SnapshotID: "s-1", Bytes: 5, NewBytes: 3, Warnings: []string{"a vanished"}}, r.do(ctx, input,
		report)
}

func (r *recorder) Restore(ctx context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	report := input.Report
	input.Report = nil
	return &dmv1.RestoreOutput{Bytes: 5, Warnings: []string{"no holes"}}, r.do(ctx, input, report)
}

func (r *recorder) Forget(ctx context.Context, input *dmv1.ForgetInput) (*dmv1.ForgetOutput, error) {
	report := input.Report
	input.Report = nil
	return &dmv1.ForgetOutput{Warnings: []string{"a lock"}}, r.do(ctx, input, report)
}

func (r *recorder) Maintain(ctx context.Context, input *dmv1.MaintainInput) (*dmv1.MaintainOutput, error) {
	report := input.Report
	input.Report = nil
	return &dmv1.MaintainOutput{FreedBytes: 7, Warnings: []string{"a lock"}}, r.do(ctx, input, report)
}

func (r *recorder) Check(ctx context.Context, input *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	report := input.Report
	input.Report = nil
	return &dmv1.CheckOutput{Created: input.Create, Warnings: []string{"a lock"}}, r.do(ctx, input, report)
}

// hub returns the hub over an author's implementation.
func hub(t *testing.T, mover dmv1.DataMover) datamover.Mover {
	t.Helper()
	return datamover.V1().Bind(plugintest.Serve(t,
		dmv1.Register(name, func(context.Context, *framework.Setup) (dmv1.DataMover, error) { return mover, nil })), name)
}

func repository() datamover.Repository {
	return datamover.Repository{
		Provider: "cleat.dev/s3", Config: map[string]string{"bucket": "b"}, Path: "restic/shop", Password: []byte("secret"),
		ReadOnly: true,
	}
}

func TestEveryFieldArrives(t *testing.T) {
	t.Parallel()
	mover := &recorder{}
	asked := hub(t, mover)
	require.Equal(t, name, asked.Name())
	ctx, settings := t.Context(), map[string]string{"ParallelFilesUpload": "3"}
	source := datamover.Source{Requester: "snapshot-pod-volume", Namespace: "shop", Pod: "web-0", Volume: "data",
		Claim: "data-web-0"}

	snapshot, err := asked.Backup(ctx, datamover.Backup{
		Repository: repository(), Key: "uid-1", Volume: datamover.Volume{Path: "/v"}, Parent: "s-0",
		Tags: map[string]string{"ns": "shop"}, Settings: settings, Again: true, Full: true,
		Source: source,
	}, nil)
	require.NoError(t, err)
	require.Equal(t, datamover.Snapshot{SnapshotID: "s-1", Bytes: 5, NewBytes: 3, Warnings: []string{"a vanished"}},
		snapshot)
	restored, err := asked.Restore(ctx, datamover.Restore{
		Repository: repository(), SnapshotID: "s-1", Volume: datamover.Volume{Path: "/dev/v", Block: true},
		Settings: settings, Bytes: 9,
	}, nil)
	require.NoError(t, err)
	require.Equal(t, datamover.Restored{Bytes: 5, Warnings: []string{"no holes"}}, restored)
	forgotten, err := asked.Forget(ctx, datamover.Forget{Repository: repository(), SnapshotIDs: []string{"s-1", "s-2"}},
		nil)
	require.NoError(t, err)
	require.Equal(t, datamover.Forgotten{Warnings: []string{"a lock"}}, forgotten)
	maintained, err := asked.Maintain(ctx, datamover.Maintain{Repository: repository(), Settings: settings}, nil)
	require.NoError(t, err)
	require.Equal(t, datamover.Maintained{FreedBytes: 7, Warnings: []string{"a lock"}}, maintained)
	for _, depth := range []datamover.Depth{datamover.Access, datamover.Structure, datamover.Data} {
		checked, err := asked.Check(ctx, datamover.Check{Repository: repository(), Depth: depth, Create: true, Settings: settings},
			nil)
		require.NoError(t, err)
		require.Equal(t, datamover.Checked{Created: true, Warnings: []string{"a lock"}}, checked)
	}

	received := dmv1.Repository(repository())
	require.Equal(t, []any{
		&dmv1.BackupInput{
			Repository: received, Key: "uid-1", Volume: dmv1.Volume{Path: "/v"}, Parent: "s-0",
			Tags: map[string]string{"ns": "shop"}, Settings: settings, Again: true, Full: true, Source: source,
		},
		&dmv1.RestoreInput{Repository: received, SnapshotID: "s-1", Volume: dmv1.Volume{Path: "/dev/v", Block: true},
			Settings: settings, Bytes: 9},
		&dmv1.ForgetInput{Repository: received, SnapshotIDs: []string{"s-1", "s-2"}},
		&dmv1.MaintainInput{Repository: received, Settings: settings},
		&dmv1.CheckInput{Repository: received, Depth: dmv1.Access, Create: true, Settings: settings},
		&dmv1.CheckInput{Repository: received, Depth: dmv1.Structure, Create: true, Settings: settings},
		&dmv1.CheckInput{Repository: received, Depth: dmv1.Data, Create: true, Settings: settings},
	}, mover.asked)
}

func TestProgressArrivesWhileTheCallGoesOn(t *testing.T) {
	t.Parallel()
	seen := make(chan datamover.Progress)
	mover := &recorder{work: func(_ context.Context, report func(dmv1.Progress)) error {
		report(dmv1.Progress{DoneBytes: 1, TotalBytes: 5, DoneFiles: 2, TotalFiles: 4, Activity: "reading"})
		for i := range 100_000 { // more than messages: the last of an interval counts
			report(dmv1.Progress{DoneBytes: int64(i % 5), TotalBytes: 5})
		}
		report(dmv1.Progress{DoneBytes: 5, TotalBytes: 5})
		<-seen // the call ends only after the report has arrived
		return nil
	}}
	var all []datamover.Progress
	_, err := hub(t, mover).Restore(t.Context(), datamover.Restore{SnapshotID: "s"}, func(p datamover.Progress) {
		if all = append(all, p); p.DoneBytes == 5 {
			close(seen)
		}
	})
	require.NoError(t, err)
	require.Equal(t, datamover.Progress{DoneBytes: 1, TotalBytes: 5, DoneFiles: 2, TotalFiles: 4, Activity: "reading"},
		all[0])
	require.Equal(t, datamover.Progress{DoneBytes: 5, TotalBytes: 5, DoneFiles: 2, TotalFiles: 4}, all[len(all)-1])
	require.Less(t, len(all), 1000)
}

func TestErrorsSayWhatTheHostCanDo(t *testing.T) {
	t.Parallel()
	for want, returned := range map[error]error{
		versioning.ErrNotFound:    framework.NotFound("no repository"),
		versioning.ErrUnavailable: framework.Unavailable("it is locked"),
		versioning.ErrInvalid:     framework.Invalid("wrong password"),
	} {
		asked := hub(t, &recorder{work: func(context.Context, func(dmv1.Progress)) error { return returned }})
		_, err := asked.Maintain(t.Context(), datamover.Maintain{}, nil)
		require.ErrorIs(t, err, want)
		require.EqualError(t, err, "DataMover(example.io/mover): "+returned.Error())
	}
}

func TestEndOfContextEndsTheWork(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	mover := &recorder{work: func(ctx context.Context, report func(dmv1.Progress)) error {
		report(dmv1.Progress{Activity: "waiting"})
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := hub(t, mover).Forget(ctx, datamover.Forget{SnapshotIDs: []string{"s"}},
		func(datamover.Progress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
}

// raw is a plugin that does what the framework would never do.
type raw struct {
	datamoverv1.UnimplementedDataMoverServiceServer
	messages []*datamoverv1.BackupResponse
	err      error
}

func (r raw) Backup(_ *datamoverv1.BackupRequest, stream grpc.ServerStreamingServer[datamoverv1.BackupResponse]) error {
	for _, message := range r.messages {
		if err := stream.Send(message); err != nil {
			return err
		}
	}
	return r.err
}

func (r raw) backup(t *testing.T, report func(datamover.Progress)) (datamover.Snapshot, error) {
	t.Helper()
	mover := datamover.V1().Bind(plugintest.ServeRaw(t, nil,
		func(server *grpc.Server) { datamoverv1.RegisterDataMoverServiceServer(server, r) }), name)
	return mover.Backup(t.Context(), datamover.Backup{Parent: "parent"}, report)
}

func progress(p *datamoverv1.Progress) *datamoverv1.BackupResponse {
	return &datamoverv1.BackupResponse{Part: &datamoverv1.BackupResponse_Progress{Progress: p}}
}

func result(r *datamoverv1.BackupResult) *datamoverv1.BackupResponse {
	return &datamoverv1.BackupResponse{Part: &datamoverv1.BackupResponse_Result{Result: r}}
}

func TestInvalidRepliesAreRejected(t *testing.T) {
	t.Parallel()
	good := result(&datamoverv1.BackupResult{SnapshotId: "s"})
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("warning %d", i)
	}
	for want, messages := range map[string][]*datamoverv1.BackupResponse{
		"the call ended without a result":     {progress(&datamoverv1.Progress{DoneBytes: 1})},
		"there is a message after the result": {good, progress(&datamoverv1.Progress{})},
		"snapshot_id is empty":                {result(&datamoverv1.BackupResult{Bytes: 1})},
		"snapshot_id is parent, the parent; want a snapshot of its own": {result(
			&datamoverv1.BackupResult{SnapshotId: "parent"},
		)},
		"snapshot_id has 257 bytes, want at most 256": {result(
			&datamoverv1.BackupResult{SnapshotId: strings.Repeat("a", 257)},
		)},
		`snapshot_id "a\nb" has control characters, want one line`: {result(
			&datamoverv1.BackupResult{SnapshotId: "a\nb"},
		)},
		"bytes is -1, want 0 or more":              {result(&datamoverv1.BackupResult{SnapshotId: "s", Bytes: -1})},
		"new_bytes is -2, want 0 or more":          {result(&datamoverv1.BackupResult{SnapshotId: "s", NewBytes: -2})},
		"there are 101 warnings, want at most 100": {result(&datamoverv1.BackupResult{SnapshotId: "s", Warnings: many})},
		"warnings[1] is empty": {result(&datamoverv1.BackupResult{SnapshotId: "s",
			Warnings: []string{"a", " "}})},
		"progress.done_bytes is -3, want 0 or more":  {progress(&datamoverv1.Progress{DoneBytes: -3}), good},
		"progress.total_files is -4, want 0 or more": {progress(&datamoverv1.Progress{TotalFiles: -4}), good},
		`progress.activity "a\rb" has control characters, want one line`: {progress(&datamoverv1.Progress{Activity: "a\rb"}),
			good},
		"progress.activity has 1025 bytes, want at most 1024": {progress(
			&datamoverv1.Progress{Activity: strings.Repeat("a", 1025)},
		), good},
	} {
		_, err := raw{messages: messages}.backup(t, nil)
		require.ErrorIs(t, err, versioning.ErrInvalidReply, want)
		require.ErrorContains(t, err, "DataMover(example.io/mover): invalid reply: "+want)
	}
}

func TestLatePartOfAReplyDoesNotHideItsError(t *testing.T) {
	t.Parallel()
	_, err := raw{messages: []*datamoverv1.BackupResponse{result(&datamoverv1.BackupResult{SnapshotId: "s"})},
		err: errors.New("disk full")}.backup(t, nil)
	require.EqualError(t, err, "DataMover(example.io/mover): disk full")
}

func TestUnlikelyProgressIsMadePossible(t *testing.T) {
	t.Parallel()
	var seen []datamover.Progress
	snapshot, err := raw{messages: []*datamoverv1.BackupResponse{
		progress(&datamoverv1.Progress{DoneBytes: 5, DoneFiles: 1}),
		progress(&datamoverv1.Progress{DoneBytes: 9, TotalBytes: 7, DoneFiles: 2, TotalFiles: 2}),
		{}, // a part of a newer protocol
		progress(&datamoverv1.Progress{DoneBytes: 1, TotalBytes: 2, DoneFiles: 1, TotalFiles: 3}),
		result(&datamoverv1.BackupResult{SnapshotId: "s"}),
	}}.backup(t, func(p datamover.Progress) { seen = append(seen, p) })
	require.NoError(t, err)
	require.Equal(t, "s", snapshot.SnapshotID)
	require.Equal(t, []datamover.Progress{
		{DoneBytes: 5, DoneFiles: 1},
		{DoneBytes: 9, TotalBytes: 9, DoneFiles: 2, TotalFiles: 2},
		{DoneBytes: 9, TotalBytes: 9, DoneFiles: 2, TotalFiles: 3},
	}, seen)
}

func TestRepositoryIsCreatedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	mover := created{}
	_, err := hub(t, mover).Check(t.Context(), datamover.Check{}, nil)
	require.ErrorContains(t, err, "invalid reply: the repository was created, which nobody asked for")
	_, err = hub(t, mover).Check(t.Context(), datamover.Check{Create: true}, nil)
	require.NoError(t, err)
}

// created is a mover that always creates.
type created struct{ dmv1.DataMover }

func (created) Check(context.Context, *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	return &dmv1.CheckOutput{Created: true}, nil
}

func TestPasswordIsNotPrinted(t *testing.T) {
	t.Parallel()
	r := repository()
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, r), "secret")
		require.NotContains(t, fmt.Sprintf(format, datamover.Backup{Repository: r}), "secret", format)
		require.NotContains(t, fmt.Sprintf(format, dmv1.Repository(r)), "secret")
		require.NotContains(t, fmt.Sprintf(format, dmv1.BackupInput{Repository: dmv1.Repository(r)}), "secret", format)
	}
}
