package loadproof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// version begins each signature.
const version = "v1:"

// The errors of Verify and VerifyStatus.
var (
	ErrUnsigned = errors.New("it has no signature")
	ErrInvalid  = errors.New("its signature is not valid")
)

// Key signs the loads of one backup or restore. The zero value is no key.
type Key struct{ secret []byte }

// KeyOf returns the key in a Backup or Restore that the server has called an action with, the zero value if there is
// none.
func KeyOf(run metav1.Object) Key { return Parse(run.GetAnnotations()[velerov1.LoadKeyAnnotation]) }

// Parse returns the key that Derive has returned, the zero value for any other text.
func Parse(text string) Key {
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != sha256.Size {
		return Key{}
	}
	return Key{secret}
}

// Derive returns the key of a run as text, for velerov1.LoadKeyAnnotation. master is the secret of the server, kind is
// "Backup" or "Restore".
func Derive(master []byte, kind, uid string) string {
	return hex.EncodeToString(sum(master, "run", []byte(kind+"/"+uid)))
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return len(k.secret) == 0 }

// String hides the key from logs.
func (Key) String() string { return "(key of loads)" }

// GoString hides the key from logs.
func (k Key) GoString() string { return k.String() }

// Sign signs a load, which is to have its name, its labels and its spec. load is a pointer to a custom resource of one
// of the four kinds, or an unstructured.Unstructured. Sign does nothing without a key.
func (k Key) Sign(load metav1.Object) error {
	return k.sign(load, velerov1.LoadSignatureAnnotation, statementOf)
}

// Verify returns an error unless the load was signed with the key and has not changed since.
func (k Key) Verify(load metav1.Object) error {
	return k.verify(load, velerov1.LoadSignatureAnnotation, statementOf)
}

// Mark returns what proves that an object of none of the four kinds was made for the run. It is empty without a key.
func (k Key) Mark(kind, name string) string {
	if k.IsZero() {
		return ""
	}
	return version + hex.EncodeToString(sum(k.secret, "mark", []byte(kind+"/"+name)))
}

// VerifyMark returns an error unless a mark is that of an object.
func (k Key) VerifyMark(mark, kind, name string) error {
	switch {
	case mark == "":
		return ErrUnsigned
	case k.IsZero() || !hmac.Equal([]byte(mark), []byte(k.Mark(kind, name))):
		return ErrInvalid
	}
	return nil
}

// SignStatus signs the status of a load, except its message, and its progress unless the load has ended.
func (k Key) SignStatus(load metav1.Object) error {
	return k.sign(load, velerov1.LoadStatusSignatureAnnotation, statusOf)
}

// VerifyStatus returns an error unless the load and its status were signed with the key.
func (k Key) VerifyStatus(load metav1.Object) error {
	if err := k.Verify(load); err != nil {
		return err
	}
	if err := k.verify(load, velerov1.LoadStatusSignatureAnnotation, statusOf); err != nil {
		return fmt.Errorf("its status: %w", err)
	}
	return nil
}

func (k Key) sign(load metav1.Object, annotation string, of func(metav1.Object) ([]byte, error)) error {
	if k.IsZero() {
		return nil
	}
	text, err := of(load)
	if err != nil {
		return err
	}
	annotations := map[string]string{}
	for key, value := range load.GetAnnotations() {
		annotations[key] = value
	}
	annotations[annotation] = version + hex.EncodeToString(sum(k.secret, annotation, text))
	load.SetAnnotations(annotations)
	return nil
}

func (k Key) verify(load metav1.Object, annotation string, of func(metav1.Object) ([]byte, error)) error {
	text, signed := load.GetAnnotations()[annotation]
	if !signed {
		return ErrUnsigned
	}
	if k.IsZero() {
		return ErrInvalid
	}
	statement, err := of(load)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	want := version + hex.EncodeToString(sum(k.secret, annotation, statement))
	if !hmac.Equal([]byte(text), []byte(want)) {
		return ErrInvalid
	}
	return nil
}

// sum returns the authentication code of a text. purpose keeps texts of different kinds apart.
func sum(secret []byte, purpose string, text []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose + "\n"))
	mac.Write(text)
	return mac.Sum(nil)
}
