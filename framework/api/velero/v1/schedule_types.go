package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Schedule makes Backups from a template at the times of a cron expression.
//
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the schedule"
// +kubebuilder:printcolumn:name="Schedule",type="string",JSONPath=".spec.schedule",description="Cron expression of the times to back up at"
// +kubebuilder:printcolumn:name="LastBackup",type="date",JSONPath=".status.lastBackup",description="When the schedule last made a backup"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Paused",type="boolean",JSONPath=".spec.paused",description="Whether the schedule makes no backups for now"
type Schedule struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is when to back up, and what.
	// +optional
	Spec ScheduleSpec `json:"spec,omitempty"`

	// Status is written by the server.
	// +optional
	Status ScheduleStatus `json:"status,omitempty"`
}

// ScheduleList is a list of Schedules.
//
// +kubebuilder:object:root=true
type ScheduleList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the schedules of the list.
	Items []Schedule `json:"items"`
}

// ScheduleSpec says when to back up, and what.
type ScheduleSpec struct {
	// Template is the spec of the backups that the schedule makes.
	Template BackupSpec `json:"template"`

	// Schedule is a cron expression of five fields, or a descriptor such as @daily or "@every 1h",
	// with an optional TZ= or CRON_TZ= prefix. Without one, times are those of the server's zone.
	Schedule string `json:"schedule"`

	// UseOwnerReferencesInBackup says whether the schedule owns its backups, so that they go when
	// it is deleted. Absent means no.
	// +optional
	// +nullable
	UseOwnerReferencesInBackup *bool `json:"useOwnerReferencesInBackup,omitempty"`

	// Paused says whether the schedule makes no backups for now.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// SkipImmediately says whether to skip a backup that is due when the schedule is created or
	// unpaused. Absent means the server's setting. The server sets it to false once it has acted
	// on it.
	// +optional
	SkipImmediately *bool `json:"skipImmediately,omitempty"`
}

// ScheduleStatus is the state of a schedule.
type ScheduleStatus struct {
	// Phase is the state of the schedule. Empty means New.
	// +optional
	Phase SchedulePhase `json:"phase,omitempty"`

	// LastBackup is when the schedule last made a backup.
	// +optional
	// +nullable
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`

	// LastSkipped is when the schedule last skipped a backup that was due.
	// +optional
	// +nullable
	LastSkipped *metav1.Time `json:"lastSkipped,omitempty"`

	// ValidationErrors are the reasons why the spec was refused.
	// +optional
	ValidationErrors []string `json:"validationErrors,omitempty"`
}

// SchedulePhase is the state of a Schedule. The empty phase is the same as New.
//
// +kubebuilder:validation:Enum=New;Enabled;FailedValidation
type SchedulePhase string

const (
	// SchedulePhaseNew is a schedule that no controller has seen.
	SchedulePhaseNew SchedulePhase = "New"

	// SchedulePhaseEnabled is a schedule that makes backups, unless it is paused.
	SchedulePhaseEnabled SchedulePhase = "Enabled"

	// SchedulePhaseFailedValidation is a schedule that was refused for status.validationErrors.
	SchedulePhaseFailedValidation SchedulePhase = "FailedValidation"
)
