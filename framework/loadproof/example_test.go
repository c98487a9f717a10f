package loadproof_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/framework/loadproof"
)

// An action signs the DataUpload that it is about to create with the key in the Backup that the server has called it
// with.
func ExampleKey_Sign() {
	backup := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		velerov1.LoadKeyAnnotation: loadproof.Derive([]byte("the secret of the server"), "Backup", "uid"),
	}}}
	upload := &v2alpha1.DataUpload{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly-data"}}
	if err := loadproof.KeyOf(backup).Sign(upload); err != nil {
		fmt.Println(err)
	}
	fmt.Println(upload.Annotations[velerov1.LoadSignatureAnnotation] != "", loadproof.KeyOf(backup).Verify(upload))
	// Output: true <nil>
}
