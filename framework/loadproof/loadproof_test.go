package loadproof_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/framework/loadproof"
)

func key(uid string) loadproof.Key {
	return loadproof.Parse(loadproof.Derive([]byte("the secret of the server"), "Backup", uid))
}

func upload() *v2alpha1.DataUpload {
	return &v2alpha1.DataUpload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "u",
			Labels: map[string]string{velerov1.AsyncOperationIDLabel: "o", "other": "1"}},
		Spec: v2alpha1.DataUploadSpec{
			SnapshotType: v2alpha1.SnapshotTypeCSI, CSISnapshot: &v2alpha1.CSISnapshotSpec{VolumeSnapshot: "vs",
				StorageClass: "fast"},
			SourceNamespace: "shop", SourcePVC: "data", DataMover: "m", OperationTimeout: metav1.Duration{Duration: time.Minute},
		},
	}
}

func TestSignatureCoversWhatALoadIs(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*v2alpha1.DataUpload)
		wrong  bool
	}{
		"nothing":       {func(*v2alpha1.DataUpload) {}, false},
		"cancel":        {func(u *v2alpha1.DataUpload) { u.Spec.Cancel = true }, false},
		"another label": {func(u *v2alpha1.DataUpload) { u.Labels["other"] = "2" }, false},
		"an empty map":  {func(u *v2alpha1.DataUpload) { u.Spec.DataMoverConfig = map[string]string{} }, false},
		"the status":    {func(u *v2alpha1.DataUpload) { u.Status.Phase = velerov1.LoadPhaseCompleted }, false},
		"the name":      {func(u *v2alpha1.DataUpload) { u.Name = "v" }, true},
		"the namespace": {func(u *v2alpha1.DataUpload) { u.Namespace = "other" }, true},
		"the operation": {func(u *v2alpha1.DataUpload) { u.Labels[velerov1.AsyncOperationIDLabel] = "p" }, true},
		"the claim":     {func(u *v2alpha1.DataUpload) { u.Labels[velerov1.PVCUIDLabel] = "c" }, true},
		"its volumes":   {func(u *v2alpha1.DataUpload) { u.Annotations[velerov1.LoadVolumesAnnotation] = "v" }, true},
		"the snapshot":  {func(u *v2alpha1.DataUpload) { u.Spec.CSISnapshot.VolumeSnapshot = "other" }, true},
		"the source":    {func(u *v2alpha1.DataUpload) { u.Spec.SourceNamespace = "other" }, true},
		"a setting":     {func(u *v2alpha1.DataUpload) { u.Spec.DataMoverConfig = map[string]string{"a": "b"} }, true},
		"the signature": {func(u *v2alpha1.DataUpload) { u.Annotations[velerov1.LoadSignatureAnnotation] += "00" }, true},
		"its version": {func(u *v2alpha1.DataUpload) { u.Annotations[velerov1.LoadSignatureAnnotation] = "v2:00" },
			true},
		"it has been lost": {func(u *v2alpha1.DataUpload) { u.Annotations = map[string]string{} }, true},
	} {
		u := upload()
		require.NoError(t, key("a").Sign(u))
		row.change(u)
		require.Equal(t, row.wrong, key("a").Verify(u) != nil, name)
		require.Error(t, key("b").Verify(u), "the key of another run")
		require.Error(t, loadproof.Key{}.Verify(u), "no key")
	}
}

func TestSignatureOfAStatusCoversWhatIsTrusted(t *testing.T) {
	t.Parallel()
	ended := func() *v2alpha1.DataUpload {
		u := upload()
		require.NoError(t, key("a").Sign(u))
		u.Status.Phase, u.Status.SnapshotID, u.Status.Progress.TotalBytes = velerov1.LoadPhaseCompleted, "s", 1<<60+1
		u.Status.CompletionTimestamp = &metav1.Time{Time: time.Now()}
		require.NoError(t, key("a").SignStatus(u))
		return u
	}
	for name, row := range map[string]struct {
		change func(*v2alpha1.DataUpload)
		wrong  bool
	}{
		"nothing":      {func(*v2alpha1.DataUpload) {}, false},
		"the message":  {func(u *v2alpha1.DataUpload) { u.Status.Message = "m" }, false},
		"the phase":    {func(u *v2alpha1.DataUpload) { u.Status.Phase = velerov1.LoadPhasePrepared }, true},
		"the snapshot": {func(u *v2alpha1.DataUpload) { u.Status.SnapshotID = "foreign" }, true},
		"the node":     {func(u *v2alpha1.DataUpload) { u.Status.Node = "n" }, true},
		"the size":     {func(u *v2alpha1.DataUpload) { u.Status.Progress.TotalBytes-- }, true},
		"the load":     {func(u *v2alpha1.DataUpload) { u.Spec.SourceNamespace = "other" }, true},
	} {
		u := ended()
		row.change(u)
		require.Equal(t, row.wrong, key("a").VerifyStatus(u) != nil, name)
	}
	u := ended()
	u.Status.Phase = velerov1.LoadPhaseInProgress
	require.NoError(t, key("a").SignStatus(u))
	u.Status.Progress.BytesDone = 7
	require.NoError(t, key("a").VerifyStatus(u), "progress is not signed before the end")
	delete(u.Annotations, velerov1.LoadStatusSignatureAnnotation)
	require.ErrorIs(t, key("a").VerifyStatus(u), loadproof.ErrUnsigned)
}

func TestSignaturesOutliveTheAPIServer(t *testing.T) {
	t.Parallel()
	restore := &velerov1.PodVolumeRestore{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "r"}}
	restore.Spec.SnapshotSize = 1<<60 + 1
	for kind, load := range map[string]metav1.Object{
		"DataUpload": upload(), "PodVolumeRestore": restore,
		"PodVolumeBackup": &velerov1.PodVolumeBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "b"}},
		"DataDownload":    &v2alpha1.DataDownload{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "d"}},
	} {
		require.NoError(t, key("a").Sign(load))
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(load)
		require.NoError(t, err)
		content["kind"] = kind
		raw := &unstructured.Unstructured{Object: content}
		require.NoError(t, key("a").Verify(raw), kind)
		require.NoError(t, key("a").Sign(raw))
		require.Equal(t, load.GetAnnotations(), raw.GetAnnotations(), "whoever signs")
	}
	restore.Spec.Pod.UID = "bound by the agent"
	require.NoError(t, key("a").Verify(restore))
}

func TestKeyIsThatOfTheCopyForPlugins(t *testing.T) {
	t.Parallel()
	b := &velerov1.Backup{}
	require.True(t, loadproof.KeyOf(b).IsZero())
	u := upload()
	require.NoError(t, loadproof.KeyOf(b).Sign(u), "other servers have no keys")
	require.Empty(t, u.Annotations)
	text := loadproof.Derive([]byte("the secret of the server"), "Backup", "a")
	b.Annotations = map[string]string{velerov1.LoadKeyAnnotation: text}
	require.NoError(t, loadproof.KeyOf(b).Sign(u))
	require.NoError(t, key("a").Verify(u))
	signature := u.Annotations[velerov1.LoadSignatureAnnotation]
	u.Annotations[velerov1.LoadSignatureAnnotation] = "v1:" + strings.ToUpper(signature[len("v1:"):])
	require.ErrorIs(t, key("a").Verify(u), loadproof.ErrInvalid, "a signature has one text")
	u.Annotations[velerov1.LoadSignatureAnnotation] = signature
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", key("a"), key("a"), key("a"), key("a")), text)
	require.NotEqual(t, text, loadproof.Derive([]byte("the secret of the server"), "Restore", "a"))
	require.Error(t, key("a").Sign(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "b"}}))
	u.Name = ""
	require.ErrorContains(t, key("a").Sign(u), "generateName cannot be used")
}

// FuzzVerify verifies loads as whoever may create them can write them. Only what was signed is valid.
func FuzzVerify(f *testing.F) {
	u := upload()
	u.Kind = "DataUpload"
	require.NoError(f, key("a").Sign(u))
	valid, err := json.Marshal(u)
	require.NoError(f, err)
	f.Add(valid)
	f.Add([]byte(`{"kind":"PodVolumeRestore","metadata":{"namespace":"n","name":"m","annotations":{"cleat.dev/load-signature":"v1:"}},"spec":{"pod":7}}`))
	f.Add([]byte(`{"kind":"DataDownload","metadata":{"annotations":7}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := &unstructured.Unstructured{}
		if json.Unmarshal(data, &raw.Object) != nil || raw.Object == nil {
			return
		}
		if key("a").Verify(raw) == nil {
			require.Equal(t, "u", raw.GetName())
			require.Equal(t, "velero", raw.GetNamespace())
			require.Equal(t, u.Annotations[velerov1.LoadSignatureAnnotation],
				raw.GetAnnotations()[velerov1.LoadSignatureAnnotation])
		}
		_ = key("a").VerifyStatus(raw)
	})
}

func TestMarksAreOfOneObjectAndRun(t *testing.T) {
	t.Parallel()
	key, other := key("a"), key("b")
	mark := key.Mark("VolumeSnapshotContent", "c")
	require.NoError(t, key.VerifyMark(mark, "VolumeSnapshotContent", "c"))
	require.ErrorIs(t, key.VerifyMark(mark, "VolumeSnapshotContent", "d"), loadproof.ErrInvalid)
	require.ErrorIs(t, key.VerifyMark(mark, "VolumeGroupSnapshotContent", "c"), loadproof.ErrInvalid)
	require.ErrorIs(t, other.VerifyMark(mark, "VolumeSnapshotContent", "c"), loadproof.ErrInvalid)
	require.ErrorIs(t, key.VerifyMark("", "VolumeSnapshotContent", "c"), loadproof.ErrUnsigned)
	require.ErrorIs(t, loadproof.Key{}.VerifyMark(mark, "VolumeSnapshotContent", "c"), loadproof.ErrInvalid)
	require.Empty(t, loadproof.Key{}.Mark("VolumeSnapshotContent", "c"))
}
