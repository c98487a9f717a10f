package repository

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/compression"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/policy"
)

// splitAbove is the size in bytes above which the parts of a file are stored at once.
const splitAbove = 2 << 30

// newPolicy returns the policy of a source: that of Velero, and compression. All snapshots are kept, because the
// checkpoints of kopia remove those that a policy does not keep.
func newPolicy(compressor string, files int) *policy.Policy {
	all := func() *policy.OptionalInt {
		n := policy.OptionalInt(math.MaxInt32)
		return &n
	}
	parallel, above, ignore := policy.OptionalInt(files), policy.OptionalInt64(splitAbove), policy.OptionalBool(true)
	return &policy.Policy{
		RetentionPolicy: policy.RetentionPolicy{
			KeepLatest: all(), KeepHourly: all(), KeepDaily: all(), KeepWeekly: all(), KeepMonthly: all(), KeepAnnual: all(),
		},
		CompressionPolicy:   policy.CompressionPolicy{CompressorName: compression.Name(compressor)},
		UploadPolicy:        policy.UploadPolicy{MaxParallelFileReads: &parallel, ParallelUploadAboveSize: &above},
		SchedulingPolicy:    policy.SchedulingPolicy{Manual: true},
		ErrorHandlingPolicy: policy.ErrorHandlingPolicy{IgnoreUnknownTypes: &ignore},
	}
}

// applyPolicy stores the policy of a source unless it is there, and returns the policies of its files.
func applyPolicy(
	ctx context.Context, w repo.RepositoryWriter, source snapshot.SourceInfo, want *policy.Policy,
) (*policy.Tree, error) {
	known, err := policy.GetDefinedPolicy(ctx, w, source)
	if err != nil && !errors.Is(err, policy.ErrPolicyNotFound) {
		return nil, err
	}
	if err != nil || !samePolicy(known, want) {
		if err := policy.SetPolicy(ctx, w, source, want); err != nil {
			return nil, err
		}
	}
	return policy.TreeForSource(ctx, w, source)
}

// samePolicy compares policies as they are stored.
func samePolicy(a, b *policy.Policy) bool {
	one, err := json.Marshal(a)
	if err != nil {
		return false
	}
	other, err := json.Marshal(b)
	return err == nil && string(one) == string(other)
}

// HasCompressor reports whether kopia knows a compressor.
func HasCompressor(name string) bool {
	return name == "none" || compression.ByName[compression.Name(name)] != nil
}
