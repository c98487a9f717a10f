package pluginhost

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

const (
	bia, biaV2, biaV3, biaV4 = "BackupItemAction", "BackupItemActionV2", "BackupItemActionV3", "BackupItemActionV4"
	ria, riaV2, abia         = "RestoreItemAction", "RestoreItemActionV2", "AsyncBackupItemAction"
)

// announced describes the plugin of a pair. Kinds are those of the wire, followed by "=name" if the name is not
// example.io/x.
type announced struct {
	lists     []string
	informs   []string // by PluginInfo; nil: it has none
	framework string   // version, by PluginInfo
	absent    []string // kinds that it names and does not serve
}

// negotiation describes a pair of a host and a plugin, or several plugins in the files a, b, and so on.
type negotiation struct {
	knows   []string // versions that the host knows; "!" behind it when it is deprecated
	plugins []announced
	want    []string // entries in their order: kind, what becomes of it, why
	calls   []string // that reach the plugins when all actions are run once
	warned  int      // how often the operator reads of a deprecated version in a server's life
}

func negotiations() map[string]negotiation {
	const (
		newest = ": used: newest version that both know"
		twoIs  = ": left: version 2 of the same name is used"
		goes   = "; goes away, use the next"
		v1, v2 = "/generated.BackupItemAction/Execute", "/v2.BackupItemAction/Execute"
		v3     = "/v3.BackupItemAction/Execute"
	)
	both, all := []string{bia, biaV2}, []string{bia, biaV2, biaV3}
	lists := func(words ...string) []announced { return []announced{{lists: words}} }
	return map[string]negotiation{
		"1 2 and 1":   {both, lists(bia), []string{bia + newest}, []string{v1}, 0},
		"1 2 and 2":   {both, lists(biaV2), []string{biaV2 + newest}, []string{v2}, 0},
		"1 2 and 1 2": {both, lists(bia, biaV2), []string{bia + twoIs, biaV2 + newest}, []string{v2}, 0},
		"1 2 and 2 1": {both, lists(biaV2, bia), []string{biaV2 + newest, bia + twoIs}, []string{v2}, 0},
		"1 2 and 3": {both, lists(biaV3), []string{biaV3 + ": left: this server knows versions 1 and 2 of " +
			"BackupItemAction, not 3"}, nil, 0},
		"1 2 and 1 2 3": {both, lists(bia, biaV2, biaV3),
			[]string{bia + twoIs, biaV2 + newest, biaV3 + ": left: this server knows versions 1 and 2 of BackupItemAction, " +
				"not 3"}, []string{v2}, 0},
		"1 and 1": {[]string{bia}, lists(bia), []string{bia + newest}, []string{v1}, 0},
		"1 and 1 2": {[]string{bia}, lists(bia, biaV2),
			[]string{bia + newest, biaV2 + ": left: this server knows version 1 of BackupItemAction, not 2"}, []string{v1}, 0},
		"1 and 2": {[]string{bia}, lists(biaV2),
			[]string{biaV2 + ": left: this server knows version 1 of BackupItemAction, not 2"}, nil, 0},
		"2 and 1": {[]string{biaV2}, lists(bia),
			[]string{bia + ": left: this server knows version 2 of BackupItemAction, no longer 1"}, nil, 0},
		"2 and 1 2": {[]string{biaV2}, lists(bia, biaV2),
			[]string{bia + ": left: this server knows version 2 of BackupItemAction, no longer 1", biaV2 + newest}, []string{v2},
			0},
		"2 and 2":       {[]string{biaV2}, lists(biaV2), []string{biaV2 + newest}, []string{v2}, 0},
		"1 2 3 and 1":   {all, lists(bia), []string{bia + newest}, []string{v1}, 0},
		"1 2 3 and 1 2": {all, lists(bia, biaV2), []string{bia + twoIs, biaV2 + newest}, []string{v2}, 0},
		"1 2 3 and 1 2 3": {all, lists(bia, biaV2, biaV3), []string{bia + ": left: version 3 of the same name is used",
			biaV2 + ": left: version 3 of the same name is used", biaV3 + newest}, []string{v3}, 0},
		"1 2 3 and 1 3": {all, lists(bia, biaV3), []string{bia + ": left: version 3 of the same name is used",
			biaV3 + newest}, []string{v3}, 0},
		"1 2 3 and 2 4": {all, lists(biaV2, biaV4),
			[]string{biaV2 + newest, biaV4 + ": left: this server knows versions 1, 2 and 3 of BackupItemAction, not 4"},
			[]string{v2}, 0},
		"1 goes, and 1": {[]string{bia + "!", biaV2}, lists(bia), []string{bia + newest + goes}, []string{v1}, 1},
		"1 goes, and 1 2": {[]string{bia + "!", biaV2}, lists(bia, biaV2), []string{bia + twoIs, biaV2 + newest},
			[]string{v2}, 0},
		"1 2 go, and 1 2": {[]string{bia + "!", biaV2 + "!", biaV3}, lists(bia, biaV2),
			[]string{bia + twoIs, biaV2 + newest + goes}, []string{v2}, 1},
		"1 goes, two names": {[]string{bia + "!", biaV2}, lists(bia, bia+"=example.io/y"),
			[]string{bia + newest + goes, bia + "=example.io/y" + newest + goes}, []string{v1, v1 + " of example.io/y"}, 2},
		"1 goes, two plugins": {[]string{bia + "!", biaV2},
			[]announced{{lists: []string{bia}}, {lists: []string{bia + "=example.io/y"}}}, []string{bia + newest + goes,
				bia + "=example.io/y" + newest + goes}, []string{v1, v1 + " of example.io/y"}, 2},
		"2 is not served": {
			both,
			[]announced{{lists: []string{bia, biaV2}, absent: []string{biaV2}}},
			[]string{bia + newest + "; BackupItemActionV2 of the same name is quarantined",
				biaV2 + ": quarantined: BackupItemActionV2 is announced but not served"},
			[]string{v1}, 0,
		},
		"nothing is served": {both, []announced{{lists: []string{biaV2}, absent: []string{biaV2}}},
			[]string{biaV2 + ": quarantined: BackupItemActionV2 is announced but not served"}, nil, 0},
		"2 is not served, and 1 goes": {
			[]string{bia + "!", biaV2},
			[]announced{{lists: []string{bia, biaV2}, absent: []string{biaV2}}},
			[]string{bia + newest + goes + "; BackupItemActionV2 of the same name is quarantined",
				biaV2 + ": quarantined: BackupItemActionV2 is announced but not served"},
			[]string{v1}, 1,
		},
		"a kind of the future": {both, lists("ItemWatcher", bia),
			[]string{`ItemWatcher: left: this server does not know the kind "ItemWatcher"`, bia + newest}, []string{v1}, 0},
		"a word that is not a version": {
			both, lists("BackupItemActionV1", bia),
			[]string{`BackupItemActionV1: left: this server does not know the kind "BackupItemActionV1"`, bia + newest},
			[]string{v1}, 0,
		},
		"Velero's plugin without PluginInfo": {
			[]string{bia, biaV2, ria, "ObjectStore"}, lists(biaV2, "ObjectStore"),
			[]string{biaV2 + newest, "ObjectStore" + newest}, []string{v2}, 0,
		},
		"ours, which only PluginInfo lists": {
			[]string{bia, "QueueAdmission"},
			[]announced{{lists: []string{bia}, informs: []string{bia, "QueueAdmission"}}},
			[]string{bia + newest, "QueueAdmission" + newest}, []string{v1}, 0,
		},
		"ours, and a host that has it not": {
			both,
			[]announced{{lists: []string{bia}, informs: []string{bia, "QueueAdmission"}}},
			[]string{bia + newest, `QueueAdmission: left: this server does not know the kind "QueueAdmission"`}, []string{v1}, 0,
		},
		"a newer framework": {
			[]string{bia, biaV2, "QueueAdmission"},
			[]announced{{lists: []string{bia, biaV2}, informs: []string{bia, biaV2, biaV3, "ItemWatcher", "QueueAdmissionV2"},
				framework: "v99.0.0"}},
			[]string{
				bia + twoIs, biaV2 + newest, biaV3 + ": left: this server knows versions 1 and 2 of BackupItemAction, not 3",
				`ItemWatcher: left: this server does not know the kind "ItemWatcher"`,
				"QueueAdmissionV2: left: this server knows version 1 of QueueAdmission, not 2",
			},
			[]string{v2}, 0,
		},
		"restores, 1 2 and 1 2": {
			[]string{ria, riaV2}, lists(ria, riaV2),
			[]string{ria + twoIs, riaV2 + newest}, []string{"/v2.RestoreItemAction/Execute"}, 0,
		},
		"restores, 1 2 and 1": {[]string{ria, riaV2}, lists(ria), []string{ria + newest},
			[]string{"/generated.RestoreItemAction/Execute"}, 0},
		"two kinds of one name": {
			[]string{bia, biaV2, ria, riaV2}, lists(bia, riaV2),
			[]string{bia + newest, riaV2 + newest}, []string{v1, "/v2.RestoreItemAction/Execute"}, 0,
		},
		"synchronous and asynchronous of one name": {
			[]string{bia, biaV2, abia},
			[]announced{{lists: []string{biaV2}, informs: []string{abia}}},
			[]string{biaV2 + newest, abia + newest}, []string{v2}, 0,
		},
		"1 in one file and 2 in another": {
			both,
			[]announced{{lists: []string{bia}}, {lists: []string{biaV2}}},
			[]string{bia + twoIs, biaV2 + newest}, []string{v2}, 0,
		},
		"1 in two files": {
			both,
			[]announced{{lists: []string{bia}}, {lists: []string{bia}}},
			[]string{bia + newest, bia + ": quarantined: BackupItemAction example.io/x is offered twice: by /plugins/a, which " +
				"is used, and by /plugins/b"},
			[]string{v1}, 0,
		},
		"1 listed twice": {
			both, lists(bia, bia),
			[]string{bia + newest, bia + ": quarantined: BackupItemAction example.io/x is offered twice: by /plugins/a, which " +
				"is used, and by /plugins/a"},
			[]string{v1}, 0,
		},
		"a name without a slash": {
			both, lists(biaV2+"=stamp", bia),
			[]string{biaV2 + `=stamp: quarantined: plugin name "stamp" must be "domain/name", like "example.io/stamp"`,
				bia + newest}, []string{v1}, 0,
		},
	}
}

// TestAcceptPlugins_Negotiation runs hosts that know some versions of kinds with plugins that announce some, in real
// processes. It checks which versions are picked, the entries and warnings, and that each name is called once.
func TestAcceptPlugins_Negotiation(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(negotiations()), 25)
	for name, test := range negotiations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := pluginDir(t)
			for i, plugin := range test.plugins {
				plugin.write(t, filepath.Join(dir, string(rune('a'+i))), "")
			}
			h := newTestHost(t, dir, func(c *Config) { c.Kinds = known(t, test.knows) })
			h.requireNegotiated(t, test)
			require.Equal(t, test.warned, strings.Count(h.log.String(), "[WARN]  plugin uses a version of its kind that is "+
				"going to be removed"))

			for i, plugin := range test.plugins { // another build of each, which offers the same
				plugin.write(t, filepath.Join(dir, string(rune('a'+i))), "# another build\n")
			}
			require.NoError(t, h.Rescan(t.Context()))
			h.requireNegotiated(t, test)
			require.Equal(t, test.warned, strings.Count(h.log.String(), "going to be removed"), "once in a server's life")
		})
	}
}

// requireNegotiated checks the entries of a pair.
func (h *testHost) requireNegotiated(t *testing.T, test negotiation) {
	t.Helper()
	var got []string
	for _, e := range h.Entries() {
		got = append(got, outcomeOf(e, h.dir))
		if test.plugins[0].framework != "" {
			require.Equal(t, test.plugins[0].framework, e.FrameworkVersion)
		}
	}
	require.Equal(t, test.want, got)

	require.NoError(t, os.RemoveAll(h.journal))
	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	for _, action := range All(session, backupActionsWithV3()) {
		_, err := execute(t.Context(), action, "nothing")
		require.NoError(t, err)
	}
	for _, action := range All(session, kinds.RestoreItemActions()...) {
		_, err := action.Execute(t.Context(), restoreitemaction.Input{Item: itemDoing("nothing"),
			ItemFromBackup: itemDoing("nothing"), Restore: backupJSON})
		require.NoError(t, err)
	}
	var calls []string
	for _, line := range h.journalLines() {
		if call, found := strings.CutPrefix(line, "called "); found {
			calls = append(calls, strings.TrimSuffix(call, " of example.io/x"))
		}
	}
	require.Equal(t, test.calls, calls)
}

func outcomeOf(e Entry, dir string) string {
	word := e.Kind
	if e.Name != "example.io/x" {
		word += "=" + e.Name
	}
	switch {
	case e.Quarantined != "":
		word += ": quarantined: " + e.Quarantined
	case e.Used:
		word += ": used: " + e.Choice
	default:
		word += ": left: " + e.Choice
	}
	if e.Note != "" {
		word += "; " + e.Note
	}
	return strings.ReplaceAll(word, dir, "/plugins")
}

// known returns the named versions of kinds, including version 3 of backupActionsWithV3. A name that ends in "!" is
// deprecated.
func known(t *testing.T, words []string) []versioning.WireKind {
	t.Helper()
	all := append(kinds.All(), backupActionsWithV3().WireKinds()...)
	var list []versioning.WireKind
	for _, word := range words {
		wire, deprecated := strings.CutSuffix(word, "!")
		version, there := versioning.Lookup(all, wire)
		require.True(t, there, wire)
		if deprecated {
			version.Deprecated = "goes away, use the next"
		}
		list = append(list, version)
	}
	return list
}

// backupActionsWithV3 returns the kind with a version 3, which differs from version 2 by its name.
func backupActionsWithV3() versioning.Kind[backupitemaction.Action] {
	kind := kinds.BackupItemAction()
	kind.Versions = append(kind.Versions, versioning.Version[backupitemaction.Action]{
		Wire: biaV3, Number: 3, Probe: "/v3.BackupItemAction/AppliesTo",
		Bind: func(conn grpc.ClientConnInterface, name string) backupitemaction.Action {
			return backupitemaction.V2().Bind(v3Conn{conn}, name)
		},
	})
	return kind
}

type v3Conn struct{ grpc.ClientConnInterface }

func (c v3Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(ctx, strings.Replace(method, "/v2.", "/v3.", 1), args, reply, opts...)
}

// write writes the file of the plugin: a script that runs the misbehaving plugin with the announcement in its
// environment.
func (a announced) write(t *testing.T, path, comment string) {
	t.Helper()
	services := map[string]string{
		bia: "generated.BackupItemAction", biaV2: "v2.BackupItemAction", biaV3: "v3.BackupItemAction",
		ria: "generated.RestoreItemAction", riaV2: "v2.RestoreItemAction", "ObjectStore": "generated.ObjectStore",
		abia:             "cleat.asyncbackupitemaction.v1.AsyncBackupItemActionService",
		"QueueAdmission": "cleat.queueadmission.v1.QueueAdmissionService",
	}
	var announcement struct {
		List   []*pluginlisterv1.PluginIdentifier
		Info   *plugininfov1.GetPluginInfoResponse
		Serves []string
	}
	serve := func(word string) (kind, name string) {
		kind, name, found := strings.Cut(word, "=")
		if !found {
			name = "example.io/x"
		}
		absent := false
		for _, other := range a.absent {
			absent = absent || other == kind
		}
		if service, there := services[kind]; there && !absent {
			announcement.Serves = append(announcement.Serves, service)
		}
		return kind, name
	}
	for _, word := range a.lists {
		kind, name := serve(word)
		announcement.List = append(announcement.List, &pluginlisterv1.PluginIdentifier{Command: path, Kind: kind, Name: name})
	}
	if a.informs != nil {
		announcement.Info = &plugininfov1.GetPluginInfoResponse{FrameworkVersion: a.framework}
		for _, word := range a.informs {
			wire, name := serve(word)
			kind, version := hostapi.SplitWireKind(wire)
			announcement.Info.Plugins = append(announcement.Info.Plugins,
				&plugininfov1.Plugin{Kind: kind, Version: int32(version), Name: name})
		}
	}
	encoded, err := json.Marshal(announcement)
	require.NoError(t, err)
	writeScript(t, path, fmt.Sprintf("%sCLEAT_TEST_ANNOUNCE='%s'", comment, encoded))
}

// writeScript atomically writes a script to path that runs the misbehaving plugin with an environment of its own.
func writeScript(t *testing.T, path, environment string) {
	t.Helper()
	binary, err := buildMisbehave()
	require.NoError(t, err)
	unfinished := path + ".tmp"
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	writeExecutable(t, unfinished, fmt.Sprintf("#!/bin/sh\n%s exec %s \"$@\"\n", environment, binary))
	require.NoError(t, os.Rename(unfinished, path))
}
