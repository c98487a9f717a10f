package replacements

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/perrun"
)

// ReadSettings returns the data of the ConfigMap that configures a restore item action; nil if there is none.
type ReadSettings func(ctx context.Context, action string) (map[string]string, error)

// settings are the replacements of one action.
type settings struct {
	action string
	read   ReadSettings
	kept   perrun.Memo[map[string]string]
}

// of returns the data of the ConfigMap for a restore.
func (s *settings) of(ctx context.Context, restore *velerov1.Restore) (map[string]string, error) {
	return s.kept.Get(ctx, keyOf(restore), func(ctx context.Context) (map[string]string, error) {
		data, err := s.read(ctx, s.action)
		if err != nil {
			return nil, framework.WithStack(fmt.Errorf("the ConfigMap that configures %s: %w", s.action, err))
		}
		return data, nil
	})
}

// keyOf identifies a restore.
func keyOf(restore *velerov1.Restore) string {
	return restore.Namespace + "/" + restore.Name + "/" + string(restore.UID)
}
