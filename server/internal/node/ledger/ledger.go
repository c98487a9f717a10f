package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// Name is the name of the ConfigMap.
const Name = configmap.Ledger

// MaxNotes is the largest number of notes, so that the ConfigMap stays below the limit of the API server, 1 MiB.
const MaxNotes = 2000

// The keys of the ConfigMap.
const (
	loadsKey  = "loads"
	agentsKey = "agents"
	proofKey  = "proof" // proves that an agent has written the other keys
)

const purpose = "ledger"

// Ledger is the content of the ConfigMap. Its methods do not change it.
type Ledger struct {
	// Loads holds the notes, by the UID of the load.
	Loads map[types.UID]Note
	// Agents holds the node agents, by the name of their nodes. The value is different for each process.
	Agents map[string]string
	// Unproven is set if there is a ConfigMap that no agent has written.
	Unproven bool
}

// Note permits a load to become Accepted, and describes it while it is prepared.
type Note struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Version is the resource version of the New load on which the write of Accepted is conditional.
	Version string `json:"version"`
	// Node is the node of the agent that has admitted the load.
	Node string `json:"node"`

	StorageClass string `json:"storageClass,omitempty"`
	Namespace    string `json:"namespace,omitempty"`
	Owner        string `json:"owner,omitempty"`
	Bytes        int64  `json:"bytes,omitempty"`
}

// Read returns the content of the ConfigMap, without entries that no agent has written. The error names such an entry.
// The ledger is usable in any case. It is empty and Unproven if the signature does not match the key.
func Read(cm *corev1.ConfigMap, key *signing.Key) (Ledger, error) {
	l := Ledger{Loads: map[types.UID]Note{}, Agents: map[string]string{}}
	if len(cm.Data) == 0 {
		return l, nil
	}
	if !key.Proves(cm.Data[proofKey], purpose, cm.Namespace, cm.Data[loadsKey], cm.Data[agentsKey]) {
		l.Unproven = true
		return l, fmt.Errorf("ConfigMap %s/%s has no proof that a node agent has written it", cm.Namespace, cm.Name)
	}
	var raw map[types.UID]json.RawMessage
	if text := cm.Data[loadsKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &raw); err != nil {
			return l, fmt.Errorf("ConfigMap %s/%s: data.%s: %w", cm.Namespace, cm.Name, loadsKey, err)
		}
	}
	var strange error
	for uid, encoded := range raw {
		var note Note
		decoder := json.NewDecoder(bytes.NewReader(encoded))
		if err := decoder.Decode(&note); err != nil || uid == "" || note.Version == "" {
			strange = fmt.Errorf("ConfigMap %s/%s: data.%s: the note of %q is not one of a node agent", cm.Namespace, cm.Name,
				loadsKey, uid)
			continue
		}
		l.Loads[uid] = note
	}
	if text := cm.Data[agentsKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &l.Agents); err != nil || l.Agents == nil {
			l.Agents = map[string]string{}
			strange = fmt.Errorf("ConfigMap %s/%s: data.%s is not a list of node agents", cm.Namespace, cm.Name, agentsKey)
		}
	}
	return l, strange
}

// Clone returns a copy that can be changed.
func (l Ledger) Clone() Ledger {
	return Ledger{Loads: maps.Clone(l.Loads), Agents: maps.Clone(l.Agents)}
}

// ConfigMap returns a copy of before, with the ledger as its content, signed with the key. Its write is conditional on
// the resource version of before; without a version, the ConfigMap is to be created.
func (l Ledger) ConfigMap(before *corev1.ConfigMap, key *signing.Key) (*corev1.ConfigMap, error) {
	loads, err := json.Marshal(l.Loads)
	if err != nil {
		return nil, err
	}
	agents, err := json.Marshal(l.Agents)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: before.Namespace, Name: before.Name, UID: before.UID, ResourceVersion: before.ResourceVersion,
			Labels: before.Labels, Annotations: before.Annotations,
		},
		Data: map[string]string{
			loadsKey: string(loads), agentsKey: string(agents), proofKey: key.Sign(purpose, before.Namespace, string(loads),
				string(agents)),
		},
	}, nil
}
